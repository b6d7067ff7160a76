// The one YAML file that describes a run. Every field is declared once, in io/config/table.cpp: that table
// parses, checks, prints and documents it (docs/config.md is generated from it). Letters as in
// docs/design.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace genesis {

struct Config {
  enum class Recompute { none, block, automatic };
  enum class ScheduleKind { cosine, wsd, constant };
  enum class OptimKind { adamw, muon };
  enum class MuonScale { adamw, spectral };
  enum class MuonCoefficients { polar_express, polar_express_4, jordan };
  enum class OnResume { refuse, extend, restart };
  enum class DataChanged { refuse, allow };
  enum class DeviceKind { automatic, cpu, cuda };
  enum class Precision { automatic, f32, bf16 };

  // Which stored layers run more than once: prelude, then `steps` times the core, then coda. core == 0: none
  // do, the model is dense and the other fields are at their defaults.
  struct Recurrence {
    int64_t prelude = 0, core = 0, coda = 0;  // stored layers
    int64_t steps = 1;
    bool operator==(const Recurrence&) const = default;
  };

  struct Model {
    int64_t vocab_size = 0;   // V
    int64_t hidden_size = 0;  // D
    int64_t heads = 0;        // H
    int64_t kv_heads = 0;     // KV
    int64_t head_size = 0;    // K
    int64_t ffn_size = 0;     // F
    bool tie_embeddings = false;
    int64_t layers = 0;  // stored layers
    Recurrence recurrence;
    double rope_theta = 500000.0;
    bool rope_interleaved = false;
    bool qk_norm = false;
    double norm_eps = 1e-5;
    double init_std = 0.02;
    bool scale_residual_init = false;
    double swiglu_clamp = 0.0;  // 0: none
    double z_loss = 0.0;
    bool operator==(const Model&) const = default;
  };

  struct Dataset {
    std::string path;  // without .bin or .idx
    double weight = 1.0;
    bool operator==(const Dataset&) const = default;
  };

  struct Data {
    std::vector<Dataset> train;
    std::vector<std::string> validation;
    std::string tokenizer;        // a SentencePiece .model; empty: none
    int64_t sequence_length = 0;  // T
    bool document_mask = false;
    DataChanged changed = DataChanged::refuse;
    bool operator==(const Data&) const = default;
  };

  struct Train {
    int64_t steps = 0;
    int64_t batch_size = 0;   // sequences in a global batch; a multiple of micro_batch
    int64_t micro_batch = 0;  // sequences in one micro-step on one device
    int64_t seed = 1;
    Recompute recompute = Recompute::automatic;
    int64_t memory_budget = 0;  // bytes; 0: what the device has
    int64_t max_bad_steps = 10;
    bool operator==(const Train&) const = default;
  };

  struct Optim {
    OptimKind kind = OptimKind::adamw;
    double lr = 0.0;
    double beta1 = 0.9, beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0.1;
    double clip_norm = 1.0;  // 0: no clipping
    // Of muon alone.
    double matrix_lr = 0.0;  // 0: lr
    double momentum = 0.95;
    MuonScale muon_scale = MuonScale::adamw;
    MuonCoefficients muon_coefficients = MuonCoefficients::polar_express;
    bool operator==(const Optim&) const = default;
  };

  struct Schedule {
    ScheduleKind kind = ScheduleKind::cosine;
    int64_t warmup_steps = 0;
    double min_lr = 0.0;      // of the last step (0: of the one after); cosine, wsd
    int64_t decay_steps = 0;  // wsd
    OnResume on_resume = OnResume::refuse;
    bool operator==(const Schedule&) const = default;
  };

  struct Checkpoint {
    int64_t every = 1000;    // steps; 0: only at the end
    int64_t keep = 5;        // the last so many; 0: all
    int64_t keep_every = 0;  // those of multiples of so many steps for good; 0: none
    bool keep_best = false;  // the one of the lowest validation loss
    bool async = false;      // written while training goes on, from a copy
    int64_t minutes = 0;     // without a checkpoint, then one is saved; 0: never
    int64_t failures = 3;    // saves in a row that fail end the run
    bool operator==(const Checkpoint&) const = default;
  };

  struct Log {
    int64_t every = 1;  // steps from one console line to the next
    bool metrics = true;
    bool tensorboard = true;
    bool operator==(const Log&) const = default;
  };

  struct Eval {
    int64_t every = 0;                // steps; 0: only at the end
    int64_t batches = 0;              // of micro_batch sequences; 0: the whole validation set
    int64_t overlap = 0;              // tokens of a sequence that are only context
    std::vector<int64_t> recurrence;  // recurrent steps to evaluate at; empty: the model's own
    bool operator==(const Eval&) const = default;
  };

  struct Device {
    DeviceKind kind = DeviceKind::automatic;
    Precision dtype = Precision::automatic;
    int64_t threads = 0;  // 0: all
    bool graphs = true;   // CUDA graphs
    bool operator==(const Device&) const = default;
  };

  std::string run_dir;
  Model model;
  Data data;
  Train train;
  Optim optim;
  Schedule schedule;
  Checkpoint checkpoint;
  Log log;
  Eval eval;
  Device device;
  bool operator==(const Config&) const = default;
};

// The words that stand for a choice in the file.
std::string_view name_of(Config::Recompute choice);
std::string_view name_of(Config::ScheduleKind choice);
std::string_view name_of(Config::OnResume choice);
std::string_view name_of(Config::DataChanged choice);
std::string_view name_of(Config::OptimKind choice);
std::string_view name_of(Config::MuonScale choice);
std::string_view name_of(Config::MuonCoefficients choice);
std::string_view name_of(Config::DeviceKind choice);
std::string_view name_of(Config::Precision choice);

// Reads a file ("-" is standard input; a pipe will do), then the overrides in order ("--optim.lr=3e-4"; a value
// that starts with [ or { is read as YAML, any other is taken as it stands), and checks the whole. Throws Error
// naming file, line, key, what was expected and what was found.
Config load_config(const std::string& path, std::span<const std::string> overrides = {});

// As load_config, for text at hand; `name` stands for the file in messages.
Config parse_config(std::string_view text, const std::string& name,
                    std::span<const std::string> overrides = {});

// Throws Error for the first that is not "--<field>=value" for a field that there is.
void check_overrides(std::span<const std::string> overrides);

// YAML of every field, that parse_config reads back to an equal Config.
std::string print_config(const Config& config);

// What keeps a run that `held` began from going on with `wanted`: differences in the model, in number and weights of
// the datasets that it is trained on, in batch size, seed or optimizer. Empty if there are none; other fields may
// change. Where a dataset lies is no difference: what it holds is, which the config doesn't say.
std::string config_differences(const Config& held, const Config& wanted);

// Which of these fields ("train.steps") differ, and how. Empty if none does.
std::string config_changes(const Config& held, const Config& wanted,
                           std::span<const std::string_view> fields);

// What every field means, its type, range and default: for a terminal, and as docs/config.md.
std::string config_help();
std::string config_markdown();

}  // namespace genesis
