// Batches of tokens for training and validation.
//
// Sample i of a dataset predicts its tokens [i T, (i + 1) T): its targets are those tokens, its inputs the
// tokens one before each, where the end-of-document id stands before the first. So every document, the first
// too, is predicted whole, from the end-of-document id before it to the one at its end, and generation starts
// with that id.
//
// With a document mask, a token belongs to the document of its target: the end-of-document id opens the next
// document at position 0, and nothing is predicted from another document's tokens. Positions count from
// there, or from the sample's first token where the document began in an earlier sample.
//
// Training reads an endless sequence of samples, numbered by one integer n. n determines everything: the
// mixture says which dataset it comes from and how many samples that dataset has given before (mixture.h);
// that count says the epoch and the place in it; a permutation named by (seed, dataset, epoch) says the
// sample (permutation.h). Nothing depends on ranks or micro-batches, so the global batch at a step holds the
// same samples for any number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "io/dataset.h"
#include "io/mixture.h"
#include "io/prefetcher.h"

namespace genesis {

constexpr int32_t kIgnoredTarget = -1;

struct Batch {
  int64_t B = 0, T = 0;
  std::vector<int32_t> tokens, targets, positions;  // [B T]
};

struct LoaderOptions {
  int64_t T = 0;
  int64_t batch_size = 0;   // samples of a global batch, over all ranks
  int64_t micro_batch = 0;  // samples of a Batch; ranks * micro_batch divides batch_size
  int rank = 0, ranks = 1;
  uint64_t seed = 0;
  bool document_mask = false;
  int64_t first_sample = 0;  // where to go on: position() of the loader before
  int64_t overlap = 0;  // of validation: tokens of each sequence that the one before has predicted already
};

struct WeightedDataset {
  std::shared_ptr<const TokenDataset> data;
  double weight = 1;  // share of the samples, relative to the other weights
};

// Throws Error, naming the datasets, if there are none, they were encoded by different tokenizers, one is
// shorter than T, they have fewer samples than a global batch, or a weight is not a positive number.
class Loader {
 public:
  Loader(std::vector<WeightedDataset> datasets, const LoaderOptions& options);

  // This rank's next micro-batch, valid until the next call. Made ahead in a background thread; an error
  // there is thrown here.
  const Batch& next();
  int64_t micro_batches() const;  // of one rank in a global batch: batch_size / (ranks * micro_batch)
  // first_sample and the samples of all global batches handed out whole: the loader's entire state.
  int64_t position() const;

 private:
  Batch make(int64_t micro_step) const;

  std::vector<WeightedDataset> datasets_;
  std::vector<int64_t> samples_;  // of each dataset in one epoch
  LoaderOptions options_;
  Mixture mixture_;
  int64_t handed_out_ = 0;  // micro-batches
  Batch current_;
  std::unique_ptr<Prefetcher<Batch>> prefetcher_;  // last: its thread reads the other members
};

// The whole of a dataset in order: each of its tokens is a target exactly once, over all ranks and
// micro-batches. With an overlap, sequences begin T - overlap tokens apart, and what they share is context
// for the later one, which predicts the rest. What is missing to a whole micro-batch is filled up with
// ignored targets. Every rank has the same number of micro-batches.
class ValidationLoader {
 public:
  // options.batch_size, seed and first_sample are not used.
  ValidationLoader(std::shared_ptr<const TokenDataset> data, const LoaderOptions& options);

  int64_t micro_batches() const { return micro_batches_; }
  Batch batch(int64_t i) const;  // i in [0, micro_batches())
  const TokenDataset& data() const { return *data_; }

 private:
  std::shared_ptr<const TokenDataset> data_;
  LoaderOptions options_;
  int64_t micro_batches_ = 0;
};

}  // namespace genesis
