#include "io/encode.h"

#include <algorithm>
#include <exception>

#include "io/prefetcher.h"
#include "io/utf8.h"
#include "kernels/common/error.h"
#include "kernels/common/parallel.h"

namespace genesis {

namespace {

constexpr size_t kBatches = 2;  // read ahead

// Bytes of text encoded at a time: enough to keep all cores busy to its end.
size_t batch_size() { return size_t(thread_count()) * 4 * kMaxBlock; }

// Blocks cut anew at places where the parts can be encoded on their own.
struct TextBatch {
  std::vector<TextBlock> blocks;
  int64_t read = 0;  // bytes of the corpus's files
};

class BatchReader {
 public:
  BatchReader(Corpus& corpus, const Tokenizer& tokenizer) : corpus_(corpus), tokenizer_(tokenizer) {}

  std::optional<TextBatch> next() {
    TextBatch batch;
    size_t size = 0;
    while (size < batch_size()) {
      auto block = corpus_.next();
      if (!block) break;
      block->text.insert(0, carried_);
      carried_.clear();
      if (!block->ends_document) carry(block->text);
      size += block->text.size();
      batch.blocks.push_back(std::move(*block));
    }
    batch.read = corpus_.consumed() - read_;
    read_ = corpus_.consumed();
    if (batch.blocks.empty()) return std::nullopt;
    return batch;
  }

 private:
  // Leaves what follows the text's last cut for the next block.
  void carry(std::string& text) {
    size_t cut = text.empty() ? 0 : text.size() - 1;
    while (cut > 0 && (utf8_continues(text[cut]) || !tokenizer_.can_cut(text, cut))) --cut;
    if (cut == 0 && text.size() > kMaxBlock) return;
    carried_ = text.substr(cut);
    text.resize(cut);
  }

  Corpus& corpus_;
  const Tokenizer& tokenizer_;
  std::string carried_;
  int64_t read_ = 0;
};

// Blocks that one thread encodes in one go.
struct Group {
  size_t begin, end;
};

std::vector<Group> group(const std::vector<TextBlock>& blocks) {
  std::vector<Group> groups;
  size_t size = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (groups.empty() || size + blocks[i].text.size() > kMaxBlock) {
      groups.push_back({i, i});
      size = 0;
    }
    groups.back().end = i + 1;
    size += blocks[i].text.size();
  }
  return groups;
}

std::vector<std::vector<int32_t>> encode(const std::vector<TextBlock>& blocks,
                                         std::vector<Encoder>& encoders) {
  std::vector<std::vector<int32_t>> ids(blocks.size());
  const auto groups = group(blocks);
  std::vector<std::exception_ptr> errors(groups.size());  // none may leave a parallel region
  parallel_for(int64_t(groups.size()), [&](int64_t g) {
    try {
      Encoder& encoder = encoders[size_t(thread_index())];
      for (size_t i = groups[size_t(g)].begin; i < groups[size_t(g)].end; ++i) {
        encoder.encode(blocks[i].text, ids[i]);
      }
    } catch (...) {
      errors[size_t(g)] = std::current_exception();
    }
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return ids;
}

}  // namespace

int64_t count_text(Corpus& corpus, const OnRead& on_read) {
  int64_t bytes = 0, read = 0;
  while (const auto block = corpus.next()) {
    bytes += int64_t(block->text.size());
    on_read(corpus.consumed() - read);
    read = corpus.consumed();
  }
  return bytes;
}

void encode_corpus(Corpus& corpus, const Tokenizer& tokenizer, DatasetWriter& main, DatasetWriter* held_out,
                   const OnRead& on_read) {
  std::vector<Encoder> encoders(thread_count(), Encoder(tokenizer));
  BatchReader reader(corpus, tokenizer);
  Prefetcher<TextBatch> batches(kBatches, [&] { return reader.next(); });
  while (const auto batch = batches.next()) {
    const auto ids = encode(batch->blocks, encoders);
    for (size_t i = 0; i < ids.size(); ++i) {
      const TextBlock& block = batch->blocks[i];
      require(!block.held_out || held_out, "held-out text and nowhere to write it");
      DatasetWriter& writer = block.held_out ? *held_out : main;
      writer.append(ids[i], int64_t(block.text.size()));
      if (block.ends_document) writer.end_document();
    }
    on_read(batch->read);
  }
}

void decode_dataset(const TokenDataset& data, const Tokenizer& tokenizer, const std::string& separator,
                    std::ostream& out, const std::function<void(int64_t)>& on_decoded) {
  data.check_tokenizer(tokenizer);
  std::vector<int32_t> ids;
  for (int64_t d = 0; d < data.documents(); ++d) {
    if (d > 0) out << separator;
    const int64_t end = data.document_begin(d + 1);
    for (int64_t at = data.document_begin(d); at < end; at += int64_t(ids.size())) {
      ids.resize(size_t(std::min<int64_t>(end - at, kMaxBlock)));
      data.read(at, ids);
      out << tokenizer.decode(ids);
      on_decoded(int64_t(ids.size()));
    }
  }
  out.flush();
  check(bool(out), "the text cannot be written: the disk is full, or the reader is gone");
}

}  // namespace genesis
