#include "apps/score/text_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/common/error.h"

namespace genesis {
namespace {

constexpr int64_t kFewDocuments = 10;
constexpr size_t kWindowsAtOnce = 128;

std::vector<int32_t> bytes_of(std::span<const int32_t> tokens, const Tokenizer& tokenizer) {
  std::vector<int32_t> bytes;
  for (int32_t id : tokens) bytes.push_back(int32_t(tokenizer.decode({&id, 1}).size()));
  return bytes;
}

class CorpusDocuments : public DocumentSource {
 public:
  CorpusDocuments(const CorpusOptions& corpus, const Tokenizer& tokenizer)
      : corpus_(corpus), tokenizer_(tokenizer), encoder_(tokenizer) {}

  std::optional<Document> next() override {
    std::string text;
    while (auto block = corpus_.next()) {
      text += block->text;
      if (block->ends_document) break;
    }
    if (text.empty()) return std::nullopt;
    Document d{{tokenizer_.eod()}, {}};
    encoder_.encode(text, d.tokens);
    d.tokens.push_back(tokenizer_.eod());
    d.bytes = bytes_of(d.tokens, tokenizer_);
    return d;
  }

 private:
  Corpus corpus_;
  const Tokenizer& tokenizer_;
  Encoder encoder_;
};

class DatasetDocuments : public DocumentSource {
 public:
  DatasetDocuments(const TokenDataset& data, const Tokenizer* tokenizer)
      : data_(data), tokenizer_(tokenizer) {}

  std::optional<Document> next() override {
    if (document_ == data_.documents()) return std::nullopt;
    const int64_t begin = data_.document_begin(document_), end = data_.document_begin(++document_);
    Document d{std::vector<int32_t>(size_t(end - begin) + 1, data_.info().eod), {}};
    data_.read(begin, std::span(d.tokens).subspan(1));
    if (tokenizer_ != nullptr) {
      d.bytes = bytes_of(d.tokens, *tokenizer_);
    } else {
      // Whole bytes whose sum over the data set is right.
      const auto bytes_before = [&](int64_t token) {
        return int64_t(double(data_.bytes()) * double(token) / double(data_.tokens()));
      };
      d.bytes.push_back(0);
      for (int64_t t = begin; t < end; ++t) d.bytes.push_back(int32_t(bytes_before(t + 1) - bytes_before(t)));
    }
    return d;
  }

 private:
  const TokenDataset& data_;
  const Tokenizer* tokenizer_;
  int64_t document_ = 0;
};

// A part of a document with what it needs to be counted.
struct Window {
  ScoredSequence sequence;
  int64_t document = 0, bytes = 0;
};

// Every token but the first is scored exactly once.
void cut(const DocumentSource::Document& d, int64_t document, const WindowOptions& o,
         std::vector<Window>& windows) {
  const int64_t last = int64_t(d.tokens.size()) - 1;
  for (int64_t begin = 0, next = 1; next <= last; begin += o.T - o.overlap) {
    const int64_t end = std::min(last, begin + o.T);  // of the tokens predicted, it included
    Window w;
    w.sequence = {{d.tokens.begin() + begin, d.tokens.begin() + end + 1}, next - begin};
    for (int64_t i = next; i <= end; ++i) w.bytes += d.bytes[size_t(i)];
    w.document = document;
    windows.push_back(std::move(w));
    next = end + 1;
  }
}

// What one scorer has found, by window and document.
struct Sums {
  std::vector<RatioUnit> window_tokens, window_bytes, document_tokens, document_bytes;

  void add(const Window& w, const std::vector<TokenScore>& scores) {
    double nats = 0;
    for (const TokenScore& s : scores) nats -= double(s.log_prob);
    if (size_t(w.document) == document_tokens.size()) {
      document_tokens.push_back({});
      document_bytes.push_back({});
    }
    const RatioUnit tokens{nats, double(scores.size())}, bytes{nats / std::numbers::ln2, double(w.bytes)};
    window_tokens.push_back(tokens);
    window_bytes.push_back(bytes);
    const auto accumulate = [](RatioUnit& sum, const RatioUnit& part) {
      sum.amount += part.amount;
      sum.size += part.size;
    };
    accumulate(document_tokens.back(), tokens);
    accumulate(document_bytes.back(), bytes);
  }

  TextScore result() const {
    TextScore r;
    r.documents = int64_t(document_tokens.size());
    double tokens = 0, bytes = 0;
    for (const RatioUnit& u : document_tokens) tokens += u.size;
    for (const RatioUnit& u : document_bytes) bytes += u.size;
    r.tokens = int64_t(tokens);
    r.bytes = int64_t(bytes);
    r.loss = ratio_of(document_tokens);
    r.bits_per_byte = ratio_of(document_bytes);
    r.over_windows = r.documents < kFewDocuments;
    r.units = int64_t(r.over_windows ? window_tokens.size() : document_tokens.size());
    r.loss_interval = bootstrap_interval(r.over_windows ? window_tokens : document_tokens);
    r.bits_interval = bootstrap_interval(r.over_windows ? window_bytes : document_bytes);
    return r;
  }
};

}  // namespace

std::unique_ptr<DocumentSource> documents_of(const CorpusOptions& corpus, const Tokenizer& tokenizer) {
  return std::make_unique<CorpusDocuments>(corpus, tokenizer);
}

std::unique_ptr<DocumentSource> documents_of(const TokenDataset& data, const Tokenizer* tokenizer) {
  return std::make_unique<DatasetDocuments>(data, tokenizer);
}

std::vector<TextScore> score_text(DocumentSource& source, const WindowOptions& options,
                                  std::vector<Scorer*> scorers, const std::function<void(int64_t)>& done) {
  require(options.T > 0 && options.overlap >= 0 && options.overlap < options.T,
          "an overlap is part of a window");
  std::vector<Sums> sums(scorers.size());
  std::vector<Window> windows;
  int64_t documents = 0, taken = 0;
  const auto flush = [&] {
    std::vector<ScoredSequence> sequences;
    for (Window& w : windows) sequences.push_back(std::move(w.sequence));
    int64_t tokens = 0;
    for (size_t s = 0; s < scorers.size(); ++s) {
      const auto scores = scorers[s]->score(sequences);
      for (size_t i = 0; i < windows.size(); ++i) {
        sums[s].add(windows[i], scores[i]);
        if (s == 0) tokens += int64_t(scores[i].size());
      }
    }
    windows.clear();
    done(tokens);
  };
  const auto enough = [&] { return options.most_tokens > 0 && taken >= options.most_tokens; };
  while (!enough()) {
    const auto document = source.next();
    if (!document) break;
    std::vector<Window> parts;
    cut(*document, documents++, options, parts);
    for (Window& part : parts) {
      if (enough()) break;
      taken += int64_t(part.sequence.tokens.size()) - part.sequence.first;
      windows.push_back(std::move(part));
      if (windows.size() == kWindowsAtOnce) flush();
    }
  }
  if (!windows.empty()) flush();
  check(taken > 0, "there is no text to score");
  std::vector<TextScore> results;
  for (const Sums& s : sums) results.push_back(s.result());
  return results;
}

}  // namespace genesis
