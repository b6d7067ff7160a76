#include "io/config/table.h"

#include "io/config/types.h"

namespace genesis {

std::string_view name_of(Config::Recompute choice) {
  switch (choice) {
    case Config::Recompute::none:
      return "none";
    case Config::Recompute::block:
      return "block";
    case Config::Recompute::automatic:
      return "auto";
  }
  return "?";
}

std::string_view name_of(Config::ScheduleKind choice) {
  switch (choice) {
    case Config::ScheduleKind::cosine:
      return "cosine";
    case Config::ScheduleKind::wsd:
      return "wsd";
    case Config::ScheduleKind::constant:
      return "constant";
  }
  return "?";
}

std::string_view name_of(Config::OnResume choice) {
  switch (choice) {
    case Config::OnResume::refuse:
      return "refuse";
    case Config::OnResume::extend:
      return "extend";
    case Config::OnResume::restart:
      return "restart";
  }
  return "?";
}

std::string_view name_of(Config::DataChanged choice) {
  switch (choice) {
    case Config::DataChanged::refuse:
      return "refuse";
    case Config::DataChanged::allow:
      return "allow";
  }
  return "?";
}

std::string_view name_of(Config::OptimKind choice) {
  switch (choice) {
    case Config::OptimKind::adamw:
      return "adamw";
    case Config::OptimKind::muon:
      return "muon";
  }
  return "?";
}

std::string_view name_of(Config::MuonScale choice) {
  switch (choice) {
    case Config::MuonScale::adamw:
      return "adamw";
    case Config::MuonScale::spectral:
      return "spectral";
  }
  return "?";
}

std::string_view name_of(Config::MuonCoefficients choice) {
  switch (choice) {
    case Config::MuonCoefficients::polar_express:
      return "polar_express";
    case Config::MuonCoefficients::polar_express_4:
      return "polar_express_4";
    case Config::MuonCoefficients::jordan:
      return "jordan";
  }
  return "?";
}

std::string_view name_of(Config::DeviceKind choice) {
  switch (choice) {
    case Config::DeviceKind::automatic:
      return "auto";
    case Config::DeviceKind::cpu:
      return "cpu";
    case Config::DeviceKind::cuda:
      return "cuda";
  }
  return "?";
}

std::string_view name_of(Config::Precision choice) {
  switch (choice) {
    case Config::Precision::automatic:
      return "auto";
    case Config::Precision::f32:
      return "f32";
    case Config::Precision::bf16:
      return "bf16";
  }
  return "?";
}

namespace config {
namespace {

// A field with kRequired has no default; one with kFixed makes the run what it is, and cannot change when the
// run is continued.
constexpr unsigned kOptional = 0, kRequired = 1, kFixed = 2;

// A field of the section that `section` picks out of a Config, const or not.
template <class Pick, class Struct, class Type>
Field field(unsigned traits, const std::string& path, Pick section, typename Type::Value Struct::*member,
            const Type& type, const std::string& unit, const std::string& meaning) {
  return {.path = path,
          .expected = type.expected(),
          .unit = unit,
          .meaning = meaning,
          .required = (traits & kRequired) != 0,
          .fixed = (traits & kFixed) != 0,
          .read = [=](const Yaml& node, Config& c) { section(c).*member = type.read(node, path); },
          .print = [=](const Config& c) { return type.print(section(c).*member); }};
}

const Real kPositive{.min = 0.0, .above_min = true};
const Real kNotNegative{.min = 0.0};
const Real kDecay{.min = 0.0, .max = 1.0, .below_max = true};
const Integer kCount{.min = 0, .max = 1'000'000'000};
const Integer kOneOrMore{.min = 1, .max = 1'000'000'000};
const Integer kLayers{.min = 0, .max = 4096};

Section top_section() {
  const auto top = [](auto& c) -> auto& { return c; };
  return {"",
          "",
          {field(kRequired, "run_dir", top, &Config::run_dir, Text{.what = "a folder"}, "",
                 "Where checkpoints, metrics and TensorBoard files go. Made if it is not there; a run that "
                 "is found in it is continued.")}};
}

Section model_section() {
  using Model = Config::Model;
  const auto model = [](auto& c) -> auto& { return c.model; };
  const Integer width{.min = 1, .max = 1 << 20};
  return {
      "model",
      "The network: pre-norm blocks of grouped-query attention and SwiGLU, without biases.",
      {field(kRequired | kFixed, "model.vocab_size", model, &Model::vocab_size,
             Integer{.min = 2, .max = 1 << 24}, "tokens",
             "V. At least the tokenizer's number of pieces; round it up to a multiple of 64 for speed."),
       field(kRequired | kFixed, "model.hidden_size", model, &Model::hidden_size, width, "",
             "D, the width of the residual stream."),
       field(kRequired | kFixed, "model.heads", model, &Model::heads, Integer{.min = 1, .max = 4096}, "",
             "H, query heads. heads x head_size may differ from hidden_size."),
       field(kRequired | kFixed, "model.kv_heads", model, &Model::kv_heads, Integer{.min = 1, .max = 4096},
             "", "KV, key and value heads; divides heads. As many as heads: plain multi-head attention."),
       field(kRequired | kFixed, "model.head_size", model, &Model::head_size,
             Integer{.min = 8, .max = 256, .multiple = 8}, "",
             "K, the width of a head. 64 and 128 are the fast ones."),
       field(kRequired | kFixed, "model.ffn_size", model, &Model::ffn_size, width, "",
             "F, the feed-forward width; SwiGLU has three matrices of D x F."),
       field(kRequired | kFixed, "model.layers", model, &Model::layers, Integer{.min = 1, .max = 4096}, "",
             "Stored layers: each has its own parameters."),
       field(kFixed, "model.tie_embeddings", model, &Model::tie_embeddings, Flag{}, "",
             "One matrix for the token embedding and the output projection."),
       field(kFixed, "model.rope_theta", model, &Model::rope_theta, kPositive, "",
             "Base of the rotary position embedding's wavelengths."),
       field(kFixed, "model.rope_interleaved", model, &Model::rope_interleaved, Flag{}, "",
             "Rotate elements (2i, 2i+1) of a head, not (i, i + K/2): the layout of some imported weights."),
       field(
           kFixed, "model.qk_norm", model, &Model::qk_norm, Flag{}, "",
           "RMSNorm of each head's queries and keys before the rotation, with a weight of head_size for "
           "each, "
           "as Qwen3 has it: attention's logits cannot grow without bound, so that higher rates are stable."),
       field(kFixed, "model.norm_eps", model, &Model::norm_eps, kPositive, "",
             "Added to RMSNorm's mean square."),
       field(kFixed, "model.init_std", model, &Model::init_std, kPositive, "",
             "Standard deviation of the initial weights."),
       field(kFixed, "model.scale_residual_init", model, &Model::scale_residual_init, Flag{}, "",
             "Divide the initial weights of the projections into the residual stream by sqrt(2 x executed "
             "layers)."),
       field(kFixed, "model.swiglu_clamp", model, &Model::swiglu_clamp, kNotNegative, "",
             "Limits SwiGLU's gate from above and its linear part on both sides. 0: no limit."),
       field(kFixed, "model.z_loss", model, &Model::z_loss, kNotNegative, "",
             "Weight of the squared log of the softmax's denominator in what training lowers; 1e-4 is usual. "
             "The "
             "losses that are reported are without it. 0: none.")}};
}

Section recurrence_section() {
  using Recurrence = Config::Recurrence;
  const auto recurrence = [](auto& c) -> auto& { return c.model.recurrence; };
  return {
      "model.recurrence",
      "Depth recurrence: run the prelude, the core `steps` times, then the coda. Leave it out for a dense "
      "model. prelude + core + coda = model.layers.",
      {field(kFixed, "model.recurrence.prelude", recurrence, &Recurrence::prelude, kLayers, "layers",
             "Stored layers before the core."),
       field(kFixed, "model.recurrence.core", recurrence, &Recurrence::core, kLayers, "layers",
             "Stored layers that run several times. 0: none, a dense model."),
       field(kFixed, "model.recurrence.coda", recurrence, &Recurrence::coda, kLayers, "layers",
             "Stored layers after the core."),
       field(kFixed, "model.recurrence.steps", recurrence, &Recurrence::steps, Integer{.min = 1, .max = 1024},
             "", "Runs of the core in training. 1: the same as the dense model.")}};
}

// A dataset may be moved.
std::string without_paths(const Config& config) {
  std::vector<Config::Dataset> datasets = config.data.train;
  for (Config::Dataset& d : datasets) d.path.clear();
  return ListOf<DatasetEntry>{}.print(datasets);
}

Section data_section() {
  using Data = Config::Data;
  const auto data = [](auto& c) -> auto& { return c.data; };
  Field train =
      field(kRequired | kFixed, "data.train", data, &Data::train,
            ListOf<DatasetEntry>{.item = {}, .may_be_empty = false}, "",
            "Training datasets. A weight is a dataset's share of the samples, relative to the other "
            "weights; 1 where it is left out. A run goes on with a dataset that was moved, but not "
            "with another one: see data.changed.");
  train.fixed_part = without_paths;
  return {
      "data",
      "Datasets are what `genesis_tokenize encode` writes: a path without the .bin or .idx.",
      {train,
       field(kOptional, "data.validation", data, &Data::validation, ListOf<Text>{.item = {.what = "a path"}},
             "", "Datasets that are never trained on. None: no validation."),
       field(kOptional, "data.tokenizer", data, &Data::tokenizer,
             Text{.may_be_empty = true, .what = "a path"}, "",
             "The SentencePiece .model that encoded the data: checked against the data, and kept with the "
             "run. '': none."),
       field(kRequired | kFixed, "data.sequence_length", data, &Data::sequence_length,
             Integer{.min = 1, .max = 1 << 20}, "tokens", "T, the context that the model trains on."),
       field(kFixed, "data.document_mask", data, &Data::document_mask, Flag{}, "",
             "Keep attention inside a document where several share a sequence; positions start again with "
             "each."),
       field(kOptional, "data.changed", data, &Data::changed,
             Choice<Config::DataChanged>{{Config::DataChanged::refuse, Config::DataChanged::allow}}, "",
             "What a run that goes on does when a training dataset does not hold what it held. refuse: "
             "nothing. allow: go on with what is there, and say so.")}};
}

Section train_section() {
  using Train = Config::Train;
  using enum Config::Recompute;
  const auto train = [](auto& c) -> auto& { return c.train; };
  return {
      "train",
      "How long to train and how much at a time. Tokens a step: batch_size x data.sequence_length.",
      {field(kRequired, "train.steps", train, &Train::steps, kOneOrMore, "steps",
             "Updates of the parameters."),
       field(kRequired | kFixed, "train.batch_size", train, &Train::batch_size, kOneOrMore, "sequences",
             "Sequences that one update is computed from, over all devices; a multiple of micro_batch."),
       field(kRequired, "train.micro_batch", train, &Train::micro_batch, kOneOrMore, "sequences",
             "Sequences that one device works on at once. Smaller: less memory, the same result but for "
             "rounding."),
       field(kFixed, "train.seed", train, &Train::seed, Integer{.min = 0}, "",
             "Of initialisation and data order. The same seed gives the same bits."),
       field(kOptional, "train.recompute", train, &Train::recompute,
             Choice<Config::Recompute>{{none, block, automatic}}, "",
             "Activations computed again in the backward pass to save memory: none, those inside a block, "
             "or (auto) as many as the memory budget needs, cheapest first. Never changes a result."),
       field(kOptional, "train.memory_budget", train, &Train::memory_budget, Bytes{}, "",
             "Device memory that recompute: auto has to fit into. 0: what the device has."),
       field(kOptional, "train.max_bad_steps", train, &Train::max_bad_steps, kOneOrMore, "steps",
             "Updates in a row that may be skipped because the loss or a gradient is not finite; then "
             "training stops.")}};
}

Section optim_section() {
  using Optim = Config::Optim;
  const auto optim = [](auto& c) -> auto& { return c.optim; };
  return {
      "optim",
      "AdamW, or Muon for the matrices of the layers and AdamW for all else: embedding, output layer, norms.",
      {field(kFixed, "optim.kind", optim, &Optim::kind,
             Choice<Config::OptimKind>{{Config::OptimKind::adamw, Config::OptimKind::muon}}, "",
             "adamw, or muon: each matrix moves by its momentum made orthogonal. One moment of a matrix "
             "instead "
             "of two, and some time more a step."),
       field(kRequired, "optim.lr", optim, &Optim::lr, kPositive, "",
             "Learning rate at its highest, after the warm-up."),
       field(kOptional, "optim.beta1", optim, &Optim::beta1, kDecay, "",
             "Decay of the gradient's running mean."),
       field(kOptional, "optim.beta2", optim, &Optim::beta2, kDecay, "",
             "Decay of the squared gradient's running mean."),
       field(kOptional, "optim.eps", optim, &Optim::eps, kPositive, "", "Added to the update's denominator."),
       field(kOptional, "optim.weight_decay", optim, &Optim::weight_decay, kNotNegative, "",
             "Of matrices only; norms are not decayed. Multiplied by the learning rate."),
       field(kOptional, "optim.clip_norm", optim, &Optim::clip_norm, kNotNegative, "",
             "Scale the gradient down to this norm where it is longer. 0: never."),
       field(kOptional, "optim.matrix_lr", optim, &Optim::matrix_lr, kNotNegative, "",
             "muon: the matrices' learning rate at its highest; over the steps it goes as optim.lr does. 0: "
             "optim.lr."),
       field(kOptional, "optim.momentum", optim, &Optim::momentum, kDecay, "",
             "muon: decay of the matrices' gradients' running mean."),
       field(
           kFixed, "optim.muon_scale", optim, &Optim::muon_scale,
           Choice<Config::MuonScale>{{Config::MuonScale::adamw, Config::MuonScale::spectral}}, "",
           "muon: what an orthogonal matrix is multiplied by. adamw: 0.2 sqrt(max(rows, columns)), with "
           "which "
           "rates and weight decay that suit AdamW suit Muon. spectral: sqrt(max(1, rows / columns)), which "
           "wants rates some ten times as high."),
       field(kFixed, "optim.muon_coefficients", optim, &Optim::muon_coefficients,
             Choice<Config::MuonCoefficients>{{Config::MuonCoefficients::polar_express,
                                               Config::MuonCoefficients::polar_express_4,
                                               Config::MuonCoefficients::jordan}},
             "",
             "muon: of the polynomials that make a matrix orthogonal. polar_express: to within 0.16 of 1 "
             "in every singular value from 0.001 of the norm on, by five; "
             "polar_express_4: to within 0.24 from 0.003 on, by four, so that a fifth less is multiplied; "
             "jordan: the five that Muon was published with, 0.32.")}};
}

Section schedule_section() {
  using Schedule = Config::Schedule;
  using enum Config::ScheduleKind;
  const auto schedule = [](auto& c) -> auto& { return c.schedule; };
  return {
      "schedule",
      "The learning rate over the steps: a linear warm-up to optim.lr, then by kind.",
      {field(kOptional, "schedule.kind", schedule, &Schedule::kind,
             Choice<Config::ScheduleKind>{{cosine, wsd, constant}}, "",
             "cosine: half a cosine from optim.lr to min_lr. wsd: stay at optim.lr, then go down to min_lr "
             "over the last decay_steps. constant: stay."),
       field(kOptional, "schedule.warmup_steps", schedule, &Schedule::warmup_steps, kCount, "steps",
             "Steps until optim.lr is reached."),
       field(kOptional, "schedule.min_lr", schedule, &Schedule::min_lr, kNotNegative, "",
             "Learning rate of the last step (cosine, wsd). 0: one step later, so that no step is taken at a "
             "rate "
             "of 0."),
       field(kOptional, "schedule.decay_steps", schedule, &Schedule::decay_steps, kCount, "steps",
             "Length of the last part (wsd)."),
       field(
           kOptional, "schedule.on_resume", schedule, &Schedule::on_resume,
           Choice<Config::OnResume>{
               {Config::OnResume::refuse, Config::OnResume::extend, Config::OnResume::restart}},
           "",
           "What a run that goes on does when train.steps, optim.lr or the schedule is not what it was. "
           "refuse: nothing, if the next step's learning rate would move. extend: take the schedule as if it "
           "had been so from its beginning. restart: begin it again, warm-up included, over the steps that "
           "are left.")}};
}

Section checkpoint_section() {
  using Checkpoint = Config::Checkpoint;
  const auto checkpoint = [](auto& c) -> auto& { return c.checkpoint; };
  return {
      "checkpoint",
      "The complete state, to go on from bit by bit.",
      {field(kOptional, "checkpoint.every", checkpoint, &Checkpoint::every, kCount, "steps",
             "Steps from one checkpoint to the next; there is always one at the end. 0: only that."),
       field(kOptional, "checkpoint.keep", checkpoint, &Checkpoint::keep, kCount, "checkpoints",
             "Keep the last so many and remove older ones. 0: keep all. One saved while steps were being "
             "skipped doesn't count."),
       field(kOptional, "checkpoint.keep_every", checkpoint, &Checkpoint::keep_every, kCount, "steps",
             "Keep each checkpoint of a multiple of so many steps for good, beside the last checkpoint.keep. "
             "0: none."),
       field(
           kOptional, "checkpoint.keep_best", checkpoint, &Checkpoint::keep_best, Flag{}, "",
           "Keep the checkpoint with the lowest validation loss, too, until one has a lower. Of a recurrent "
           "model at model.recurrence.steps, or at the last of eval.recurrence where that is not there."),
       field(
           kOptional, "checkpoint.async", checkpoint, &Checkpoint::async, Flag{}, "",
           "Write a checkpoint while training goes on, from a copy in host memory, one at a time. Takes the "
           "size of a checkpoint in memory."),
       field(kOptional, "checkpoint.minutes", checkpoint, &Checkpoint::minutes, kCount, "minutes",
             "Save after so long without a checkpoint, too. 0: never."),
       field(kOptional, "checkpoint.failures", checkpoint, &Checkpoint::failures, kOneOrMore, "saves",
             "So many saves in a row that fail, on a full disk say, end the run. After fewer it goes on, and "
             "tries again when the next checkpoint is due. At the end of a run one is enough.")}};
}

Section log_section() {
  using Log = Config::Log;
  const auto log = [](auto& c) -> auto& { return c.log; };
  return {
      "log",
      "What a run reports.",
      {field(
           kOptional, "log.every", log, &Log::every, kOneOrMore, "steps",
           "Steps from one console line to the next. Its MFU (model FLOP utilisation) is the model's FLOP/s, "
           "without recomputation, of what a large product reached on the same threads when the run was "
           "started."),
       field(kOptional, "log.metrics", log, &Log::metrics, Flag{}, "",
             "Write metrics.jsonl into run_dir: one JSON object a step and a validation."),
       field(kOptional, "log.tensorboard", log, &Log::tensorboard, Flag{}, "",
             "Write TensorBoard event files into run_dir/tensorboard.")}};
}

Section eval_section() {
  using Eval = Config::Eval;
  const auto eval = [](auto& c) -> auto& { return c.eval; };
  return {
      "eval",
      "Validation: loss and bits-per-byte on data.validation.",
      {field(kOptional, "eval.every", eval, &Eval::every, kCount, "steps",
             "Steps from one validation to the next; there is always one at the end. 0: only that."),
       field(kOptional, "eval.batches", eval, &Eval::batches, kCount, "batches",
             "Batches of train.micro_batch sequences to use. 0: the whole of data.validation."),
       field(kOptional, "eval.overlap", eval, &Eval::overlap, kCount, "tokens",
             "Tokens of each validation sequence that are only read, because the sequence before has "
             "predicted them: no token is predicted from less context. Costs time: a sequence then predicts "
             "data.sequence_length less eval.overlap tokens."),
       field(kOptional, "eval.recurrence", eval, &Eval::recurrence,
             ListOf<Integer>{.item = {.min = 1, .max = 1024}}, "",
             "Numbers of recurrent steps to validate a recurrent model at. None: "
             "model.recurrence.steps.")}};
}

Section device_section() {
  using Device = Config::Device;
  const auto device = [](auto& c) -> auto& { return c.device; };
  const Choice<Config::DeviceKind> kinds{
      {Config::DeviceKind::automatic, Config::DeviceKind::cpu, Config::DeviceKind::cuda}};
  const Choice<Config::Precision> precisions{
      {Config::Precision::automatic, Config::Precision::f32, Config::Precision::bf16}};
  return {
      "device",
      "What computes.",
      {field(kOptional, "device.kind", device, &Device::kind, kinds, "",
             "auto: cuda where a GPU is found, else cpu."),
       field(kOptional, "device.dtype", device, &Device::dtype, precisions, "",
             "Type of activations and of the weights computed with; parameters, moments and sums are f32 "
             "always. auto: bf16 where the device multiplies it faster."),
       field(kOptional, "device.threads", device, &Device::threads, Integer{.min = 0, .max = 4096}, "threads",
             "CPU threads, at most one for each CPU that the process may use (its affinity, its container's "
             "quota). 0: so many."),
       field(
           kOptional, "device.graphs", device, &Device::graphs, Flag{}, "",
           "On a GPU, record each part of a step as a CUDA graph when it runs for the second time, and start "
           "it as a whole from then on: the same bits with less time between kernels.")}};
}

}  // namespace

const std::vector<Section>& table() {
  static const std::vector<Section> sections{top_section(),      model_section(),      recurrence_section(),
                                             data_section(),     train_section(),      optim_section(),
                                             schedule_section(), checkpoint_section(), log_section(),
                                             eval_section(),     device_section()};
  return sections;
}

}  // namespace config
}  // namespace genesis
