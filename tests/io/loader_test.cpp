#include "io/loader.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "io/file.h"
#include "tests/io/small_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

std::shared_ptr<const TokenDataset> dataset(const TempFolder& folder, const std::string& name,
                                            const std::vector<int>& lengths, int32_t first = 10) {
  write_dataset(folder.path() / name, lengths, first);
  return std::make_shared<TokenDataset>(folder.path() / name);
}

// An index over ids of 32 bits, from the lengths of its sequences and each document's first sequence.
void write_index(const std::string& path, const std::vector<int32_t>& lengths,
                 const std::vector<int64_t>& documents) {
  std::string bytes(kIndexMagic, sizeof kIndexMagic);
  const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(uint64_t(1));
  put(kI32Code);
  put(uint64_t(lengths.size()));
  put(uint64_t(documents.size()));
  for (const int32_t length : lengths) put(length);
  int64_t offset = 0;
  for (const int32_t length : lengths) {
    put(offset);
    offset += length * int64_t(sizeof(int32_t));
  }
  for (const int64_t sequence : documents) put(sequence);
  std::ofstream(path, std::ios::binary) << bytes;
}

using Row = std::vector<int32_t>;

Row row_of(const std::vector<int32_t>& all, int64_t row, int64_t T) {
  return Row(all.begin() + row * T, all.begin() + (row + 1) * T);
}

// The targets of the next `batches` micro-batches, row by row: what identifies a sample.
std::vector<Row> targets(Loader& loader, int batches) {
  std::vector<Row> rows;
  for (int i = 0; i < batches; ++i) {
    const Batch& batch = loader.next();
    for (int64_t row = 0; row < batch.B; ++row) rows.push_back(row_of(batch.targets, row, batch.T));
  }
  return rows;
}

struct Mixed {
  std::vector<double> weights;
  std::vector<int> tokens;  // of each dataset
  int T;
  uint64_t seed;
};

// "(dataset, sample) ..." of a run's first n samples, as the loader gives them.
std::string order_of(const Mixed& m, int n) {
  const TempFolder folder;
  constexpr int32_t kApart = 10000;  // between the ids of two datasets
  std::vector<WeightedDataset> datasets;
  for (size_t d = 0; d < m.tokens.size(); ++d) {
    const int32_t first = int32_t(d + 1) * kApart;
    datasets.push_back({dataset(folder, std::to_string(d), {m.tokens[d]}, first), m.weights[d]});
  }
  Loader loader(datasets, {.T = m.T, .batch_size = 1, .micro_batch = 1, .seed = m.seed});
  std::string order;
  for (const Row& row : targets(loader, n)) {
    const int32_t dataset = row[0] / kApart - 1;
    const std::string sample = std::to_string(row[0] % kApart / m.T);
    order += (order.empty() ? "(" : " (") + std::to_string(dataset) + ", " + sample + ")";
  }
  return order;
}

std::string list(const auto& numbers) {
  std::ostringstream text;
  text.precision(17);
  for (const auto number : numbers) text << (text.tellp() > 0 ? ", " : "[") << number;
  return text.str() + "]";
}

}  // namespace

TEST_CASE("a sample's targets are its tokens, its inputs the tokens before them") {
  const TempFolder folder;
  const auto data = dataset(folder, "d", {6, 3, 8, 4, 2});  // 23 tokens: 5 samples of 4
  const auto all = all_tokens(*data);
  Loader loader({{data}}, {.T = 4, .batch_size = 5, .micro_batch = 5});
  const Batch& batch = loader.next();
  CHECK(batch.B == 5);
  CHECK(batch.T == 4);
  std::set<int64_t> begins;
  for (int64_t row = 0; row < 5; ++row) {
    const Row target = row_of(batch.targets, row, 4), input = row_of(batch.tokens, row, 4);
    const auto found = std::search(all.begin(), all.end(), target.begin(), target.end());
    REQUIRE(found != all.end());
    const int64_t begin = found - all.begin();
    CHECK(begin % 4 == 0);
    begins.insert(begin);
    CHECK(input[0] == (begin == 0 ? kTestEod : all[size_t(begin - 1)]));
    CHECK(Row(input.begin() + 1, input.end()) == Row(target.begin(), target.end() - 1));
    CHECK(row_of(batch.positions, row, 4) == Row{0, 1, 2, 3});
  }
  CHECK(begins.size() == 5);
}

TEST_CASE("with a document mask, positions restart where the target's document begins") {
  const TempFolder folder;
  const auto data = dataset(folder, "d", {6, 3, 1, 8, 6});  // 24 tokens
  Loader loader({{data}}, {.T = 12, .batch_size = 2, .micro_batch = 2, .document_mask = true});
  const Batch& batch = loader.next();
  std::set<Row> positions;
  for (int64_t row = 0; row < 2; ++row) positions.insert(row_of(batch.positions, row, 12));
  // Documents begin at tokens 0, 6, 9, 10, 18; the second sample begins inside the fourth.
  CHECK(positions ==
        std::set<Row>{{0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 0, 1}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}});
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    // The first position of a document holds the end-of-document id before it, unless the sample cuts into
    // it.
    if (batch.positions[i] == 0 && i % 12 > 0) CHECK(batch.tokens[i] == kTestEod);
    if (i % 12 > 0 && batch.tokens[i] == kTestEod) CHECK(batch.positions[i] == 0);
  }
}

TEST_CASE("an epoch holds each sample once, the next one in another order") {
  const TempFolder folder;
  const auto data = dataset(folder, "d", std::vector<int>(40, 10));  // 100 samples of 4
  Loader loader({{data}}, {.T = 4, .batch_size = 10, .micro_batch = 2, .seed = 3});
  const auto first = targets(loader, 50), second = targets(loader, 50);
  CHECK(std::set<Row>(first.begin(), first.end()).size() == 100);
  CHECK(std::set<Row>(second.begin(), second.end()) == std::set<Row>(first.begin(), first.end()));
  CHECK(first != second);
  Loader again({{data}}, {.T = 4, .batch_size = 10, .micro_batch = 2, .seed = 3});
  CHECK(targets(again, 50) == first);
  Loader other({{data}}, {.T = 4, .batch_size = 10, .micro_batch = 2, .seed = 4});
  CHECK(targets(other, 50) != first);
}

TEST_CASE("the global batch is the same for any ranks and micro-batches") {
  const TempFolder folder;
  const auto a = dataset(folder, "a", std::vector<int>(30, 10)), b = dataset(folder, "b", {57}, 50000);
  const LoaderOptions base{.T = 4, .batch_size = 12, .seed = 9, .document_mask = true};
  const auto batches = [&](int ranks, int64_t micro_batch) {
    std::vector<Row> rows;
    std::vector<std::unique_ptr<Loader>> loaders;
    for (int rank = 0; rank < ranks; ++rank) {
      LoaderOptions options = base;
      options.micro_batch = micro_batch;
      options.rank = rank;
      options.ranks = ranks;
      loaders.push_back(std::make_unique<Loader>(std::vector<WeightedDataset>{{a, 3}, {b, 1}}, options));
    }
    for (int step = 0; step < 20; ++step) {  // past both datasets' ends
      for (auto& loader : loaders) {
        CHECK(loader->position() == step * 12);
        for (const Row& row : targets(*loader, int(loader->micro_batches()))) rows.push_back(row);
        CHECK(loader->position() == (step + 1) * 12);
      }
    }
    return rows;
  };
  const auto expected = batches(1, 12);
  CHECK(std::set<Row>(expected.begin(), expected.end()).size() == 75 + 14);  // all samples of both
  CHECK(batches(1, 1) == expected);
  CHECK(batches(2, 3) == expected);
  CHECK(batches(3, 4) == expected);
  CHECK(batches(12, 1) == expected);
}

TEST_CASE("a mixture follows its weights, dataset by dataset and epoch by epoch") {
  const TempFolder folder;
  const auto a = dataset(folder, "a", {400}), b = dataset(folder, "b", {80}, 50000);
  Loader loader({{a, 1}, {b, 3}}, {.T = 4, .batch_size = 4, .micro_batch = 4});
  std::map<Row, int> of_b;
  int from_a = 0;
  for (const Row& row : targets(loader, 20)) {
    if (row[0] < 50000 && row[0] != kTestEod) {
      ++from_a;
    } else {
      ++of_b[row];
    }
  }
  CHECK(from_a == 20);
  CHECK(of_b.size() == 20);  // 60 samples of 20: three epochs
  for (const auto& [row, count] : of_b) CHECK(count == 3);
}

TEST_CASE("docs/data.md tells the order of samples as it is") {
  const std::string page = read_text_file(GENESIS_SOURCE_DIR "/docs/data.md");
  const auto between = [&](const std::string& begin, const std::string& end) {
    const size_t from = page.find(begin) + begin.size();
    return page.substr(from, page.find(end, from) - from);
  };
  const Mixed example{{1, 2.5}, {71, 115}, 10, 3};
  CHECK(lacks(page, "`weights = [1, 2.5]`, `tokens = [71, 115]`, `T = 10` and `seed = 3`") == "");
  CHECK(between("the order begins\n\n```\n", "\n```") == order_of(example, 16));

  if (std::system("python3 --version >/dev/null 2>&1") != 0) return;  // the page's program is Python's
  const TempFolder folder;
  std::string program = between("```python\n", "```");
  std::string expected;
  for (const Mixed& m :
       {example, Mixed{{1}, {40}, 8, 0}, Mixed{{2}, {9}, 8, 1}, Mixed{{1, 1, 1}, {80, 17, 33}, 8, 5},
        Mixed{{0.1, 0.7, 0.2, 0.3}, {301, 99, 14, 1000}, 7, (uint64_t(1) << 62) + 12345}}) {
    expected += order_of(m, 300) + "\n";
    program += "\nprint(*(sample(n, " + list(m.weights) + ", " + list(m.tokens) + ", " + std::to_string(m.T) +
               ", " + std::to_string(m.seed) + ") for n in range(300)))";
  }
  const std::string script = folder.put("order.py", program), out = folder.file("out");
  REQUIRE(std::system(("python3 " + script + " >" + out).c_str()) == 0);
  CHECK(read_text_file(out) == expected);
}

TEST_CASE("position is all there is to resume from, across epochs and datasets") {
  const TempFolder folder;
  const auto a = dataset(folder, "a", {50}), b = dataset(folder, "b", {90}, 50000);
  const std::vector<WeightedDataset> datasets = {{a, 1}, {b, 2}};
  LoaderOptions options{.T = 4, .batch_size = 6, .micro_batch = 3, .seed = 1};
  Loader straight(datasets, options);
  targets(straight, 2 * 13);
  Loader first(datasets, options);
  targets(first, 2 * 13 + 1);  // stopped inside a global batch: it is done again
  CHECK(first.position() == 13 * 6);
  options.first_sample = first.position();
  Loader resumed(datasets, options);
  CHECK(resumed.position() == 13 * 6);
  CHECK(targets(resumed, 40) == targets(straight, 40));
  CHECK(resumed.position() == straight.position());
}

TEST_CASE("validation counts each token once, for any overlap, ranks and micro-batches") {
  const TempFolder folder;
  const auto data = dataset(folder, "d", {6, 30, 1, 10, 4});  // 51 tokens, 12 samples of 4 and 3 over
  const auto all = all_tokens(*data);
  const bool mask = GENERATE(false, true);
  const int64_t overlap = GENERATE(0, 1, 3);
  const int64_t rows = 1 + (51 - 4 + (4 - overlap) - 1) / (4 - overlap);
  for (int ranks : {1, 2, 3}) {
    for (int64_t micro_batch : {1, 2, 5, 20}) {
      std::vector<int32_t> seen;
      for (int rank = 0; rank < ranks; ++rank) {
        const ValidationLoader loader(data, {.T = 4,
                                             .micro_batch = micro_batch,
                                             .rank = rank,
                                             .ranks = ranks,
                                             .document_mask = mask,
                                             .overlap = overlap});
        CHECK(loader.micro_batches() == (rows + ranks * micro_batch - 1) / (ranks * micro_batch));
        for (int64_t i = 0; i < loader.micro_batches(); ++i) {
          const Batch batch = loader.batch(i);
          CHECK(batch.B == micro_batch);
          for (size_t j = 0; j < batch.targets.size(); ++j) {
            REQUIRE(batch.positions[j] >= 0);
            REQUIRE(batch.positions[j] < 4);
            if (batch.targets[j] == kIgnoredTarget) continue;
            if (seen.size() >= 4) CHECK(int64_t(j % 4) >= overlap);  // no target has less context
            CHECK(batch.tokens[j] == (seen.empty() ? kTestEod : seen.back()));
            seen.push_back(batch.targets[j]);
          }
        }
      }
      CHECK(seen == all);
    }
  }
}

TEST_CASE("validation data shorter than a sequence is one padded sample") {
  const TempFolder folder;
  const ValidationLoader loader(dataset(folder, "d", {3}), {.T = 8, .micro_batch = 1, .document_mask = true});
  REQUIRE(loader.micro_batches() == 1);
  const Batch batch = loader.batch(0);
  CHECK(batch.tokens == Row{1, 10, 11, 1, 1, 1, 1, 1});
  CHECK(batch.targets == Row{10, 11, 1, -1, -1, -1, -1, -1});
  CHECK(batch.positions == Row{0, 1, 2, 0, 1, 2, 3, 4});
}

// Megatron's own datasets may cut a document into several sequences of the index.
TEST_CASE("a document longer than a sample goes on in the next ones, also where the index cuts it") {
  const TempFolder folder;
  write_dataset(folder.path() / "d", {4, 23, 7});
  if (GENERATE(false, true)) write_index(folder.file("d.idx"), {4, 8, 8, 7, 7}, {0, 1, 4, 5});
  const auto data = std::make_shared<TokenDataset>(folder.path() / "d");
  CHECK(data->documents() == 3);
  const ValidationLoader loader(data, {.T = 8, .micro_batch = 5, .document_mask = true});
  REQUIRE(loader.micro_batches() == 1);
  const Batch batch = loader.batch(0);
  const Row targets[] = {{10, 11, 12, 1, 13, 14, 15, 16},
                         {17, 18, 19, 20, 21, 22, 23, 24},
                         {25, 26, 27, 28, 29, 30, 31, 32},
                         {33, 34, 1, 35, 36, 37, 38, 39},
                         {40, 1, -1, -1, -1, -1, -1, -1}};
  const Row tokens[] = {{1, 10, 11, 12, 1, 13, 14, 15},
                        {16, 17, 18, 19, 20, 21, 22, 23},
                        {24, 25, 26, 27, 28, 29, 30, 31},
                        {32, 33, 34, 1, 35, 36, 37, 38},
                        {39, 40, 1, 1, 1, 1, 1, 1}};
  const Row positions[] = {{0, 1, 2, 3, 0, 1, 2, 3},
                           {0, 1, 2, 3, 4, 5, 6, 7},
                           {0, 1, 2, 3, 4, 5, 6, 7},
                           {0, 1, 2, 0, 1, 2, 3, 4},
                           {0, 1, 0, 1, 2, 3, 4, 5}};
  for (int row = 0; row < 5; ++row) {
    INFO("row " << row);
    CHECK(row_of(batch.targets, row, 8) == targets[row]);
    CHECK(row_of(batch.tokens, row, 8) == tokens[row]);
    CHECK(row_of(batch.positions, row, 8) == positions[row]);
  }
  // The trainer's loader gives the same rows, in another order.
  Loader training({{data}}, {.T = 8, .batch_size = 4, .micro_batch = 4, .document_mask = true});
  const Batch& trained = training.next();
  std::set<std::vector<Row>> rows;
  for (int64_t row = 0; row < 4; ++row) {
    rows.insert(
        {row_of(trained.targets, row, 8), row_of(trained.tokens, row, 8), row_of(trained.positions, row, 8)});
  }
  std::set<std::vector<Row>> expected;
  for (int row = 0; row < 4; ++row) expected.insert({targets[row], tokens[row], positions[row]});
  CHECK(rows == expected);
}

TEST_CASE("a loader says what is wrong with its data") {
  const TempFolder folder;
  const auto data = dataset(folder, "d", {20, 30});
  const auto refusal = [](std::vector<WeightedDataset> datasets, const LoaderOptions& options) {
    return message_of([&] { Loader loader(std::move(datasets), options); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(refusal({{data}}, {.T = 10, .batch_size = 5, .micro_batch = 5}) == "");
  CHECK(has(refusal({}, {.T = 10, .batch_size = 5, .micro_batch = 5}), "no dataset"));
  CHECK(has(refusal({{data}}, {.T = 51, .batch_size = 1, .micro_batch = 1}),
            "d: holds 50 tokens, fewer than one sequence of 51"));
  CHECK(has(refusal({{data}}, {.T = 10, .batch_size = 6, .micro_batch = 1}),
            "5 samples of 10 tokens, fewer than a global batch of 6"));
  CHECK(has(refusal({{data}}, {.T = 10, .batch_size = 5, .micro_batch = 2}),
            "whole number of micro-batches of 2"));
  CHECK(has(refusal({{data}}, {.T = 10, .batch_size = 4, .micro_batch = 2, .rank = 0, .ranks = 4}),
            "each of 4 ranks"));
  CHECK(has(refusal({{data}}, {.T = 0, .batch_size = 4, .micro_batch = 2}), "must be positive"));
  CHECK(
      has(refusal({{data, 0}}, {.T = 10, .batch_size = 4, .micro_batch = 2}), "expected a positive number"));
  write_dataset(folder.path() / "other", {20, 30}, 10, 1000, "ffff");
  const auto other = std::make_shared<TokenDataset>(folder.path() / "other");
  const std::string message = refusal({{data}, {other}}, {.T = 10, .batch_size = 5, .micro_batch = 5});
  CHECK(has(message, "different tokenizers"));
  CHECK(has(message, folder.file("other") + " (hash ffff)"));
}
