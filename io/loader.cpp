#include "io/loader.h"

#include <algorithm>

#include "io/permutation.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

constexpr size_t kPrefetched = 4;  // micro-batches

Batch blank(int64_t B, int64_t T) {
  const size_t size = size_t(B * T);
  return {.B = B,
          .T = T,
          .tokens = std::vector<int32_t>(size),
          .targets = std::vector<int32_t>(size, kIgnoredTarget),
          .positions = std::vector<int32_t>(size)};
}

// Positions of a row whose targets are tokens [begin, begin + positions.size()).
void number(const TokenDataset& data, int64_t begin, bool document_mask, std::span<int32_t> positions) {
  int64_t document = document_mask ? data.document_of(begin) : 0;
  int64_t next = document_mask ? data.document_begin(document + 1) : data.tokens();
  int32_t position = 0;
  for (int64_t i = 0; i < int64_t(positions.size()); ++i) {
    if (begin + i == next) {
      position = 0;
      next = data.document_begin(++document + 1);
    }
    positions[i] = position++;
  }
}

// Row `row` of the batch = the T tokens of the data from `begin` on, or as many as there are: what is missing
// becomes a document of its own, with nothing to predict. The first `context` tokens are only read.
void fill(Batch& batch, int64_t row, const TokenDataset& data, int64_t begin, bool document_mask,
          int64_t context = 0) {
  const int64_t T = batch.T;
  const int64_t count = std::clamp<int64_t>(data.tokens() - begin, 0, T);
  const auto tokens = std::span(batch.tokens).subspan(size_t(row * T), size_t(T));
  const auto targets = std::span(batch.targets).subspan(size_t(row * T), size_t(T));
  const auto positions = std::span(batch.positions).subspan(size_t(row * T), size_t(T));
  std::fill(tokens.begin(), tokens.end(), data.info().eod);
  if (count > 0) {
    data.read(begin, targets.first(count));
    if (begin > 0) data.read(begin - 1, tokens.first(1));
    std::copy(targets.begin(), targets.begin() + (count - 1), tokens.begin() + 1);
    number(data, begin, document_mask, positions.first(count));
    std::fill(targets.begin(), targets.begin() + std::min(context, count), kIgnoredTarget);
  }
  for (int64_t i = count; i < T; ++i) positions[i] = int32_t(i - count);
}

// The stream of random numbers that orders a dataset in an epoch. The first bit keeps it apart from the
// streams of other uses of the run's seed.
uint64_t stream(int dataset, int64_t epoch) {
  return uint64_t(1) << 63 | uint64_t(dataset) << 40 | uint64_t(epoch);
}

void check_ranks(const LoaderOptions& o) {
  check(o.T > 0 && o.micro_batch > 0, "the sequence length and the micro-batch must be positive");
  require(o.ranks > 0 && o.rank >= 0 && o.rank < o.ranks, "a rank outside [0, ranks)");
}

std::vector<double> weights_of(const std::vector<WeightedDataset>& datasets) {
  std::vector<double> weights;
  for (const WeightedDataset& d : datasets) weights.push_back(d.weight);
  return weights;
}

void check_datasets(const std::vector<WeightedDataset>& datasets, const LoaderOptions& o) {
  check(!datasets.empty(), "no dataset to train on");
  const TokenDataset& first = *datasets.front().data;
  int64_t samples = 0;
  for (const WeightedDataset& d : datasets) {
    const TokenDataset& data = *d.data;
    check(data.info().tokenizer_hash == first.info().tokenizer_hash,
          "datasets of different tokenizers: " + first.prefix().string() + " (hash " +
              first.info().tokenizer_hash + ") and " + data.prefix().string() + " (hash " +
              data.info().tokenizer_hash + ")");
    check(data.tokens() >= o.T, data.prefix().string() + ": holds " + std::to_string(data.tokens()) +
                                    " tokens, fewer than one sequence of " + std::to_string(o.T));
    samples += data.tokens() / o.T;
  }
  check(samples >= o.batch_size, "the data (" + first.prefix().string() +
                                     (datasets.size() > 1 ? " and the rest" : "") + ") holds " +
                                     std::to_string(samples) + " samples of " + std::to_string(o.T) +
                                     " tokens, fewer than a global batch of " + std::to_string(o.batch_size));
}

}  // namespace

Loader::Loader(std::vector<WeightedDataset> datasets, const LoaderOptions& options)
    : datasets_(std::move(datasets)), options_(options), mixture_(weights_of(datasets_)) {
  check_ranks(options);
  check(options.batch_size > 0 && options.batch_size % (options.ranks * options.micro_batch) == 0,
        "a global batch of " + std::to_string(options.batch_size) +
            " samples is not a whole number of micro-batches of " + std::to_string(options.micro_batch) +
            " on each of " + std::to_string(options.ranks) + " ranks");
  require(options.first_sample >= 0, "a negative sample number");
  check_datasets(datasets_, options);
  for (const WeightedDataset& d : datasets_) samples_.push_back(d.data->tokens() / options.T);
  prefetcher_ = std::make_unique<Prefetcher<Batch>>(
      kPrefetched, [this, step = int64_t(0)]() mutable { return std::optional(make(step++)); });
}

int64_t Loader::micro_batches() const {
  return options_.batch_size / (options_.ranks * options_.micro_batch);
}

int64_t Loader::position() const {
  return options_.first_sample + handed_out_ / micro_batches() * options_.batch_size;
}

Batch Loader::make(int64_t micro_step) const {
  const LoaderOptions& o = options_;
  const int64_t step = micro_step / micro_batches(), part = micro_step % micro_batches();
  const int64_t first =
      o.first_sample + step * o.batch_size + o.rank * (o.batch_size / o.ranks) + part * o.micro_batch;
  Batch batch = blank(o.micro_batch, o.T);
  for (int64_t row = 0; row < o.micro_batch; ++row) {
    const auto [dataset, index] = mixture_.sample(first + row);
    const int64_t samples = samples_[dataset], epoch = index / samples;
    const uint64_t sample =
        permute(uint64_t(index % samples), uint64_t(samples), o.seed, stream(dataset, epoch));
    fill(batch, row, *datasets_[size_t(dataset)].data, int64_t(sample) * o.T, o.document_mask);
  }
  return batch;
}

const Batch& Loader::next() {
  current_ = *prefetcher_->next();  // it never ends
  ++handed_out_;
  return current_;
}

ValidationLoader::ValidationLoader(std::shared_ptr<const TokenDataset> data, const LoaderOptions& options)
    : data_(std::move(data)), options_(options) {
  check_ranks(options);
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  require(options.overlap >= 0 && options.overlap < options.T, "an overlap shorter than a sequence");
  const int64_t rows =
      1 + divide_up(std::max<int64_t>(data_->tokens() - options.T, 0), options.T - options.overlap);
  micro_batches_ = divide_up(rows, options.ranks * options.micro_batch);
}

Batch ValidationLoader::batch(int64_t i) const {
  require(i >= 0 && i < micro_batches_, "a micro-batch outside the validation data");
  Batch batch = blank(options_.micro_batch, options_.T);
  const int64_t first = (options_.rank * micro_batches_ + i) * options_.micro_batch;
  for (int64_t row = 0; row < batch.B; ++row) {
    const int64_t begin = (first + row) * (options_.T - options_.overlap);
    fill(batch, row, *data_, begin, options_.document_mask, begin > 0 ? options_.overlap : 0);
  }
  return batch;
}

}  // namespace genesis
