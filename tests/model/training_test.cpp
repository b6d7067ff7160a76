// Training steps that have to come out the same, to the bit or to fp32 rounding, however they are computed.

#include <optional>

#include "kernels/common/parallel.h"
#include "kernels/muon/muon_ref.h"
#include "model/executions.h"
#include "model/init.h"
#include "model/parameters.h"
#include "tests/support/catch.h"
#include "tests/support/rounding_model.h"
#include "tests/support/trainee.h"

using namespace genesis;

namespace {

using Bits = std::map<std::string, std::vector<char>>;

const std::vector<Role> kTrained = {Role::parameter, Role::master, Role::moment};

std::vector<TokenBatch> batches(const Config::Model& m, int64_t B, int64_t T, int count, uint64_t seed,
                                bool document_mask = false) {
  std::vector<TokenBatch> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(random_batch(m.vocab_size, B, T, document_mask, seed * 1000 + uint64_t(i)));
  }
  return all;
}

// Losses, gradients and everything the optimizer changes, after each of some steps of two micro-batches.
std::vector<Bits> train(Trainee& trainee, const Config::Model& m, int64_t B, int64_t T, bool document_mask) {
  trainee.set_random_weights(4);
  std::vector<Bits> history;
  for (int step = 1; step <= 3; ++step) {
    trainee.step(batches(m, B, T, 2, uint64_t(step), document_mask), 1e-2f, step);
    history.push_back(
        trainee.bits({Role::parameter, Role::master, Role::moment, Role::gradient, Role::result}));
  }
  return history;
}

// The names that differ.
std::string difference(const Bits& a, const Bits& b) {
  if (a.size() != b.size()) return "not the same arrays";
  std::string names;
  for (const auto& [name, bits] : a) {
    if (b.count(name) == 0 || b.at(name) != bits) names += name + " ";
  }
  return names;
}

// A global batch's sequences in `count` micro-batches of as many each.
std::vector<TokenBatch> split(const TokenBatch& whole, int64_t count) {
  const int64_t B = whole.B / count;
  std::vector<TokenBatch> parts;
  for (int64_t p = 0; p < count; ++p) {
    const auto cut = [&](const std::vector<int32_t>& v) {
      return std::vector<int32_t>(v.begin() + p * B * whole.T, v.begin() + (p + 1) * B * whole.T);
    };
    parts.push_back(
        {{B, whole.T, cut(whole.tokens), cut(whole.targets), cut(whole.positions)}, whole.document_mask});
  }
  return parts;
}

Config::Model untied_recurrent_model() {
  Config::Model m = tiny_recurrent_model();
  m.tie_embeddings = false;
  m.z_loss = 0.01;
  return m;
}

Config::Model normed_model() {
  Config::Model m = tiny_model();
  m.qk_norm = true;
  return m;
}

}  // namespace

TEST_CASE("training: recompute changes the plan and not a bit of the result") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Config::Model& m : {tiny_model(), untied_recurrent_model(), normed_model()}) {
      INFO(name_of(dtype) << (m.recurrence.core > 0 ? ", recurrent" : m.qk_norm ? ", normed" : ", dense"));
      const int64_t B = 2, T = 33;
      const BatchShape shape{B, T, true};
      const int64_t K = trained_recurrence(m);
      Trainee none(m, shape, K, {.dtype = dtype});
      Trainee block(m, shape, K, {.dtype = dtype, .recompute = Config::Recompute::block});
      const size_t most = none.executable().memory().bytes, least = block.executable().memory().bytes;
      REQUIRE(least < most);
      const auto within = [&](size_t budget) -> TraineeOptions {
        return {.dtype = dtype, .recompute = Config::Recompute::automatic, .budget = budget};
      };
      Trainee automatic(m, shape, K, within((most + least) / 2));
      // A little less than everything: what the backward passes of norms and SwiGLU give again is not kept.
      Trainee given_again(m, shape, K, within(most - (most - least) / 8));
      CHECK(!given_again.recompute_plan().recomputed.empty());
      CHECK(given_again.recompute_plan().flops == 0);

      // Three plans: nothing, everything but block inputs, and something between them is computed again.
      CHECK(none.recompute_plan().recomputed.empty());
      CHECK(none.recompute_plan().flops == 0);
      const size_t some = automatic.recompute_plan().recomputed.size();
      CHECK(some > 0);
      CHECK(some < block.recompute_plan().recomputed.size());
      CHECK(automatic.executable().memory().bytes <= (most + least) / 2);

      const auto expected = train(none, m, B, T, true);
      CHECK(difference(expected[0], expected[1]) != "");  // something is trained
      const auto with_block = train(block, m, B, T, true), with_automatic = train(automatic, m, B, T, true);
      const auto with_given = train(given_again, m, B, T, true);
      for (size_t step = 0; step < expected.size(); ++step) {
        CHECK(difference(expected[step], with_block[step]) == "");
        CHECK(difference(expected[step], with_automatic[step]) == "");
        CHECK(difference(expected[step], with_given[step]) == "");
      }
    }
  }
}

TEST_CASE("training: the same seed gives the same bits, with any number of threads") {
  const Config::Model m = tiny_recurrent_model();
  const auto run = [&](uint64_t seed) {
    Trainee trainee(m, {3, 50, true}, 2, {.dtype = DType::bf16});
    initialise_parameters(m, seed, trainee.storage());
    for (int step = 1; step <= 3; ++step) trainee.step(batches(m, 3, 50, 2, 7, true), 1e-2f, step);
    return trainee.bits({Role::parameter, Role::master, Role::moment, Role::result});
  };
  const Bits first = run(1);
  CHECK(difference(first, run(1)) == "");
  CHECK(difference(first, run(2)) != "");
  const int threads = thread_count();
  set_thread_count(threads == 1 ? 2 : 1);
  const Bits other = run(1);
  set_thread_count(threads);
  CHECK(difference(first, other) == "");
}

TEST_CASE("training: one recurrent step is the dense model, to the bit") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Config::Model recurrent = untied_recurrent_model();
    Config::Model dense = recurrent;
    dense.recurrence = {};
    Trainee a(recurrent, {2, 9, false}, 1, {.dtype = dtype}), b(dense, {2, 9, false}, 1, {.dtype = dtype});
    const auto expected = train(b, dense, 2, 9, false), found = train(a, recurrent, 2, 9, false);
    for (size_t step = 0; step < expected.size(); ++step)
      CHECK(difference(expected[step], found[step]) == "");

    Trainee two(recurrent, {2, 9, false}, 2, {.dtype = dtype});
    CHECK(difference(expected[0], train(two, recurrent, 2, 9, false)[0]) != "");
  }
}

TEST_CASE("training: a shared layer's gradient is the sum over its runs, each a layer of its own") {
  const Config::Model recurrent = untied_recurrent_model();
  const int64_t K = 3, B = 2, T = 9;
  const auto runs = executions(recurrent, K);
  Config::Model unrolled = recurrent;
  unrolled.recurrence = {};
  unrolled.layers = int64_t(runs.size());
  REQUIRE(unrolled.layers == 8);

  Trainee shared(recurrent, {B, T, false}, K), copies(unrolled, {B, T, false}, 1);
  shared.set_random_weights(4);
  const auto name_in = [](int layer, const std::string& part) {
    return "layers." + std::to_string(layer) + "." + part;
  };
  const std::vector<std::string> parts = {"attn_norm.weight", "attn.qkv.weight",    "attn.out.weight",
                                          "ffn_norm.weight",  "ffn.gate_up.weight", "ffn.down.weight"};
  for (const char* name : {"embed.weight", "head.weight", "norm.weight"}) {
    set_parameter(copies.storage(), name, get_parameter(shared.storage(), name));
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& part : parts) {
      set_parameter(copies.storage(), name_in(int(i), part),
                    get_parameter(shared.storage(), name_in(runs[i].layer, part)));
    }
  }
  const TokenBatch batch = random_batch(recurrent.vocab_size, B, T, false, 8);
  for (Trainee* trainee : {&shared, &copies}) {
    trainee->begin();
    trainee->micro(batch);
  }
  CHECK(shared.bytes(kLossAndCount) == copies.bytes(kLossAndCount));
  for (const char* name : {"d.embed.weight", "d.head.weight", "d.norm.weight"}) {
    CHECK(shared.bytes(name) == copies.bytes(name));
  }
  for (int layer = 0; layer < 4; ++layer) {
    for (const std::string& part : parts) {
      INFO(name_in(layer, part));
      std::vector<double> sum;
      double magnitude = 0, single = 0;
      int terms = 0;
      for (size_t i = 0; i < runs.size(); ++i) {
        if (runs[i].layer != layer) continue;
        const auto d = copies.read("d." + name_in(int(i), part));
        sum.resize(d.size());
        for (size_t k = 0; k < d.size(); ++k) sum[k] += d[k];
        magnitude += largest(d);
        single = std::max(single, largest(d));
        ++terms;
      }
      const auto found = shared.read("d." + name_in(layer, part));
      CHECK(terms == (layer == 1 || layer == 2 ? K : 1));
      // The same products, added to a sum that others are in already.
      const double allowed = unit_roundoff(DType::f32) * double(B * T + K) * magnitude;
      double worst = 0;
      for (size_t k = 0; k < sum.size(); ++k) worst = std::max(worst, std::abs(found[k] - sum[k]));
      CHECK(worst <= (terms == 1 ? 0 : allowed));
      CHECK(allowed < 1e-3 * single);
    }
  }
}

TEST_CASE(
    "training: micro-batches at several numbers of recurrent steps add up in one step, whose result waits") {
  const Config::Model m = untied_recurrent_model();
  const BatchShape shape{2, 9, false};
  const std::vector<TokenBatch> parts = batches(m, shape.B, shape.T, 2, 3);
  Trainee one(m, shape, 1), three(m, shape, 3);
  Config config;
  config.model = m;
  config.train.micro_batch = shape.B;
  config.data.sequence_length = shape.T;
  config.train.recompute = Config::Recompute::none;
  std::map<int64_t, Graph> graphs;
  for (const int64_t K : {1, 3}) {
    config.model.recurrence.steps = K;
    graphs[K] = build_training_graph(config, {.dtype = DType::f32, .rates = &kCpuRates}).graph;
  }
  const std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  TrainingStep both(std::move(graphs), config.optim, storage);
  one.set_random_weights(4);
  three.set_random_weights(4);
  for (const std::string& name : one.parameters()) {
    set_parameter(storage, name, get_parameter(one.storage(), name));
  }
  one.begin();
  one.micro(parts[0]);
  three.begin();
  three.micro(parts[1]);
  both.begin();
  both.micro(parts[0], 1);
  both.micro(parts[1], 3);

  for (const std::string& name : one.parameters()) {
    INFO(name);
    const std::vector<double> a = one.read("d." + name), b = three.read("d." + name);
    std::vector<float> sum(a.size());
    storage.read("d." + name, sum.data(), sum.size() * sizeof(float));
    double worst = 0, largest = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      worst = std::max(worst, std::abs(double(sum[i]) - a[i] - b[i]));
      largest = std::max({largest, std::abs(a[i]), std::abs(b[i])});
    }
    // As many additions to a sum that is not zero to begin with as the layer has runs and the batch tokens.
    CHECK(worst <= unit_roundoff(DType::f32) * double(shape.B * shape.T + 3) * largest);
  }
  both.update(1e-2, 1);
  // Asked for when the next step's sums are in the place of its own.
  both.begin();
  both.micro(parts[1], 1);
  const StepResult result = both.result();
  CHECK(result.applied);
  CHECK(result.loss == Approx((one.loss() + three.loss()) / (one.count() + three.count())).epsilon(1e-6));
}

TEST_CASE("training: a global batch in one, four or eight micro-batches has one loss and one gradient") {
  for (const Config::Model& m : {tiny_model(), untied_recurrent_model()}) {
    INFO((m.recurrence.core > 0 ? "recurrent" : "dense"));
    const int64_t T = 11, K = trained_recurrence(m);
    TokenBatch whole = random_batch(m.vocab_size, 8, T, false, 21);
    // Sequence i keeps at most i + 1 of its targets, and the fourth none at all.
    for (int64_t i = 0; i < 8 * T; ++i) {
      if (i % T > i / T || i / T == 3) whole.targets[size_t(i)] = -1;
    }
    const auto valid =
        double(std::count_if(whole.targets.begin(), whole.targets.end(), [](int32_t t) { return t >= 0; }));
    REQUIRE(valid > 20);

    std::optional<Expectation> expected;
    for (const int64_t count : {1, 4, 8}) {
      INFO(count << " micro-batches");
      Trainee trainee(m, {8 / count, T, false}, K);
      trainee.set_random_weights(4);
      if (!expected) expected.emplace(m, K, trainee.weights(), whole, DType::f32);
      double mean_of_means = 0;
      trainee.begin();
      for (const TokenBatch& part : split(whole, count)) {
        const double loss = trainee.loss(), tokens = trainee.count();
        trainee.micro(part);
        const double more = trainee.count() - tokens;
        if (more > 0) mean_of_means += (trainee.loss() - loss) / more / double(count);
      }
      trainee.update(0, 1);

      CHECK(trainee.count() == valid);
      CHECK(expected->mismatch("loss", {trainee.loss()}) == "");
      double squares = 0;  // of the exact gradient
      for (const std::string& name : trainee.parameters()) {
        CHECK(expected->mismatch(name, trainee.read("d." + name)) == "");
        squares += std::pow(expected->length(name), 2);
      }
      // The gradient that is clipped and applied is that of the mean over the global batch's valid tokens ...
      CHECK(trainee.read(kNormAndScaleValue)[0] == Approx(std::sqrt(squares) / valid).epsilon(1e-5));
      // ... which the mean of the micro-batches' means is not.
      const double off = std::abs(mean_of_means - trainee.loss() / valid) * valid;
      CHECK((count == 1 || off > 100 * expected->allowed("loss")));
    }
  }
}

TEST_CASE("training: a step moves the parameters as AdamW says, by the mean gradient over valid tokens") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Config::Model m = tiny_model();
    Config::Optim options;
    options.clip_norm = 0.5;
    options.weight_decay = 0.3;
    Trainee trainee(m, {2, 9, false}, 1, {.dtype = dtype, .optim = options});
    trainee.set_random_weights(4);
    std::map<std::string, std::vector<float>> before;
    for (const std::string& name : trainee.parameters()) {
      before[name] = get_parameter(trainee.storage(), name);
    }
    const float lr = 0.01f;
    trainee.step(batches(m, 2, 9, 2, 1), lr, 1);
    const double norm = trainee.read(kNormAndScaleValue)[0];
    REQUIRE(norm > 0.5);  // it is clipped
    for (const std::string& name : trainee.parameters()) {
      INFO(name);
      const auto gradient = trainee.read("d." + name);
      const auto after = get_parameter(trainee.storage(), name);
      const double decay = trainee.storage().find(name)->value.shape.rank() == 2 ? 0.3 : 0;
      double worst = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        // The first step's moments are the gradient's own, so that it goes by lr g / (|g| + eps).
        const double g = gradient[i] / trainee.count() * 0.5 / norm;
        const double w = double(before[name][i]);
        const double expected = w - lr * (g / (std::abs(g) + 1e-8) + decay * w);
        worst = std::max(worst, std::abs(after[i] - expected) / (std::abs(w) + lr));
      }
      CHECK(worst < 16 * unit_roundoff(DType::f32) + 1e-5 * lr);
      if (dtype == DType::f32) continue;
      const auto copy = trainee.read(name);
      for (size_t i = 0; i < copy.size(); ++i) REQUIRE(copy[i] == double(float(bf16(after[i]))));
    }
  }
}

TEST_CASE("training: what is not finite changes no parameter, master or moment") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Config::Model m = tiny_recurrent_model();
    Trainee trainee(m, {2, 9, false}, 2, {.dtype = dtype});
    trainee.set_random_weights(4);
    trainee.step(batches(m, 2, 9, 2, 1), 1e-2f, 1);
    const Bits before = trainee.bits(kTrained);

    const auto micro_steps = [&] {
      trainee.begin();
      for (const TokenBatch& batch : batches(m, 2, 9, 2, 2)) trainee.micro(batch);
    };
    for (const float bad : {INFINITY, NAN}) {
      micro_steps();
      std::vector<double> gradient = trainee.read("d.norm.weight");
      std::vector<float> spoilt(gradient.begin(), gradient.end());
      spoilt[3] = bad;
      trainee.storage().write("d.norm.weight", spoilt.data(), spoilt.size() * sizeof(float));
      const StepResult of_gradient = trainee.update(1e-2f, 2);
      CHECK(!of_gradient.applied);
      CHECK(!std::isfinite(of_gradient.grad_norm));
      CHECK(difference(before, trainee.bits(kTrained)) == "");

      micro_steps();
      const LossSum sum{bad, float(trainee.count())};
      trainee.storage().write(kLossAndCount, &sum, sizeof sum);
      const StepResult of_loss = trainee.update(1e-2f, 2);
      CHECK(!of_loss.applied);
      CHECK(std::isfinite(of_loss.grad_norm));
      CHECK(difference(before, trainee.bits(kTrained)) == "");
    }
    // The next good step is applied, as if the bad ones had not been.
    micro_steps();
    CHECK(trainee.update(1e-2f, 2).applied);
    const Bits after = trainee.bits(kTrained);
    CHECK(difference(before, after) != "");
    Trainee other(m, {2, 9, false}, 2, {.dtype = dtype});
    other.set_random_weights(4);
    for (int step : {1, 2}) other.step(batches(m, 2, 9, 2, uint64_t(step)), 1e-2f, step);
    CHECK(difference(after, other.bits(kTrained)) == "");
  }
}

TEST_CASE("training: a few steps on one batch bring its loss down") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Config::Model m = tiny_recurrent_model();
    Trainee trainee(m, {2, 16, false}, 2, {.dtype = dtype});
    initialise_parameters(m, 1, trainee.storage());
    const TokenBatch batch = random_batch(m.vocab_size, 2, 16, false, 3);
    trainee.step({batch}, 1e-2f, 1);
    const double first = trainee.loss() / trainee.count();
    for (int step = 2; step <= 60; ++step) trainee.step({batch}, 1e-2f, step);
    CHECK(trainee.loss() / trainee.count() < 0.3 * first);
  }
}

namespace {

Config::Optim muon_options() {
  Config::Optim optim;
  optim.kind = Config::OptimKind::muon;
  optim.lr = 1e-2;
  return optim;
}

}  // namespace

TEST_CASE("training: Muon gives the same bits with any number of threads, and has one moment a matrix") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Config::Model m = tiny_recurrent_model();
    const auto run = [&] {
      Trainee trainee(m, {3, 50, true}, 2, {.dtype = dtype, .optim = muon_options()});
      initialise_parameters(m, 1, trainee.storage());
      for (int step = 1; step <= 3; ++step) trainee.step(batches(m, 3, 50, 2, 7, true), 1e-2f, step);
      for (const auto* array : trainee.storage().with_role(Role::moment)) {
        const std::string& name = array->value.name;
        const bool is_layers_matrix = name.find("layers.") == 0 && array->value.shape.rank() == 2;
        CHECK_FALSE((is_layers_matrix && name.ends_with(".v")));
      }
      return trainee.bits({Role::parameter, Role::master, Role::moment, Role::result});
    };
    const Bits first = run();
    const int threads = thread_count();
    for (const int others : {1, 2, 5}) {
      set_thread_count(others);
      const Bits other = run();
      set_thread_count(threads);
      CHECK(difference(first, other) == "");
    }
  }
}

// The gradients are read before the update, and the update is done again in double.
TEST_CASE("training: a step of Muon moves each matrix of a layer as its specification says") {
  for (const auto scale : {Config::MuonScale::adamw, Config::MuonScale::spectral}) {
    const Config::Model m = tiny_model();
    Config::Optim optim = muon_options();
    optim.muon_scale = scale;
    optim.matrix_lr = 2e-2;
    Trainee trainee(m, {2, 33, true}, 1, {.optim = optim});
    trainee.set_random_weights(4);
    trainee.begin();
    trainee.micro(batches(m, 2, 33, 1, 3)[0]);
    std::map<std::string, std::vector<double>> before, gradients;
    for (const Parameter& p : parameters(m)) {
      before[p.name] = trainee.read(p.name);
      gradients[p.name] = trainee.read("d." + p.name);
    }
    trainee.update(1e-2f, 1);
    const double factor = trainee.read(kNormAndScaleValue)[1];
    int matrices = 0;
    for (const Parameter& p : parameters(m)) {
      int64_t first = 0;
      const auto found = trainee.read(p.name);
      for (const int64_t rows : layer_matrices(p)) {
        INFO(p.name << " from row " << first);
        const int64_t columns = p.shape[1];
        const auto part = [&](const std::vector<double>& v) {
          return std::vector<double>(v.begin() + first * columns, v.begin() + (first + rows) * columns);
        };
        const double shape = scale == Config::MuonScale::adamw
                                 ? 0.2 * std::sqrt(double(std::max(rows, columns)))
                                 : std::sqrt(std::max(1., double(rows) / double(columns)));
        std::vector<double> master = part(before[p.name]), moment(master.size(), 0.);
        const auto unmoved = master;
        ref::muon<double>({.beta = 0.95, .lr = 2e-2, .scale = factor, .factor = shape, .weight_decay = 0.1},
                          kMuonPolarExpress, rows, columns, part(gradients[p.name]), moment, master);
        const auto now = part(found);
        double error = 0, moved = 0;
        for (size_t i = 0; i < now.size(); ++i) {
          error += (now[i] - master[i]) * (now[i] - master[i]);
          moved += (master[i] - unmoved[i]) * (master[i] - unmoved[i]);
        }
        // Small singular values are raised some thousandfold, and with them the roundings of the first products.
        CHECK(std::sqrt(error) < 1000 * 0x1p-24 * double(columns) * std::sqrt(moved));
        first += rows;
        ++matrices;
      }
    }
    CHECK(matrices == 7 * int(m.layers));
  }
}
