// A run small enough for a test: its data, its config, and its trainer in this process.
#pragma once

#include <sstream>

#include "apps/train/trainer.h"
#include "io/file.h"
#include "kernels/common/random.h"
#include "tests/support/temp_folder.h"

namespace genesis {

constexpr int64_t kTinyV = 64;
constexpr double kTinyPeak = 1e12;  // FLOP/s, as the trainer is told

// Documents of made-up ids with some structure to learn.
inline void write_tiny_dataset(const std::string& prefix, int documents, int length, uint64_t seed) {
  DatasetWriter writer(prefix, kTinyV, 1, "0123456789abcdef");
  for (int d = 0; d < documents; ++d) {
    std::vector<int32_t> ids{int32_t(2 + random_bits(seed, uint64_t(d), 0) % (kTinyV - 2))};
    for (int i = 1; i < length; ++i) {
      ids.push_back(int32_t(2 + (uint32_t(ids.back()) * 5 + random_bits(seed, uint64_t(d), uint64_t(i)) % 3) %
                                    (kTinyV - 2)));
    }
    writer.append(ids, 4 * int64_t(ids.size()));
    writer.end_document();
  }
  writer.finish();
}

class TinyRun {
 public:
  // Two training sets of 24 and 16 samples and a validation set.
  TinyRun() {
    write_tiny_dataset(folder.file("a"), 8, 50, 1);
    write_tiny_dataset(folder.file("b"), 8, 34, 2);
    write_tiny_dataset(folder.file("v"), 4, 30, 3);
  }

  Config config(const std::string& run, std::vector<std::string> overrides = {}) const {
    const std::string text = "run_dir: " + folder.file(run) +
                             "\n"
                             "model: {vocab_size: 64, hidden_size: 32, layers: 2, heads: 2, kv_heads: 1,\n"
                             "        head_size: 16, ffn_size: 48, tie_embeddings: true}\n"
                             "data:\n"
                             "  train: [{path: " +
                             folder.file("a") + ", weight: 2}, {path: " + folder.file("b") +
                             ", weight: 1}]\n"
                             "  validation: " +
                             folder.file("v") +
                             "\n"
                             "  sequence_length: 16\n"
                             "  document_mask: true\n"
                             "train: {steps: 20, batch_size: 4, micro_batch: 2}\n"
                             "optim: {lr: 1e-2}\n"
                             "schedule: {kind: cosine, warmup_steps: 2, min_lr: 1e-3}\n";
    return parse_config(text, "tiny.yaml", overrides);
  }

  std::unique_ptr<Trainer> trainer(const Config& config) {
    output.str("");
    Terminal terminal{.out = &output,
                      .interactive = false,
                      .columns = [] { return 80; },
                      .seconds = [this] { return seconds; }};
    return std::make_unique<Trainer>(config, terminal, [this](Device&, DType) {
      ++peaks_measured;
      return kTinyPeak;
    });
  }

  TempFolder folder;
  std::ostringstream output;  // of the trainer made last
  double seconds = 0;         // by its terminal's clock
  int peaks_measured = 0;     // by all of its trainers: not really, which takes a quarter of a second
};

// Every parameter, master and moment, byte for byte.
inline std::string state_bytes(const Storage& storage) {
  std::string bytes;
  for (Role role : {Role::parameter, Role::master, Role::moment}) {
    for (const Storage::Array* a : storage.with_role(role)) {
      std::string one(a->value.bytes(), '\0');
      storage.read(a->value.name, one.data(), one.size());
      bytes += one;
    }
  }
  return bytes;
}

}  // namespace genesis
