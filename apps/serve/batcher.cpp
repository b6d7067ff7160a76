#include "apps/serve/batcher.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/common/error.h"
#include "kernels/common/parallel.h"

namespace genesis {

Batcher::Batcher(CachedModel& model, const Tokenizer& tokenizer) : model_(model), tokenizer_(tokenizer) {
  for (int64_t slot = model.cache().slots; slot-- > 0;) free_slots_.push_back(int32_t(slot));
}

void Batcher::add(std::shared_ptr<Generation> generation) {
  const GenerationRequest& r = generation->request();
  require(!r.prompt.empty() && r.echo <= r.prompt.size(), "a prompt has a token");
  require(int64_t(r.prompt.size()) + r.max_tokens <= room(), "a generation fits the cache");
  const std::scoped_lock lock(mutex_);
  waiting_.push_back(std::move(generation));
}

int64_t Batcher::unfinished() const {
  const std::scoped_lock lock(mutex_);
  return int64_t(waiting_.size()) + taken_;
}

bool Batcher::step() {
  end_unwanted();
  take_waiting();
  std::vector<SequenceToken> rows;
  const std::vector<Part> parts = gather(rows);
  if (parts.empty()) return false;
  const std::span<const float> logits = model_.run(rows);
  const auto V = size_t(model_.vocab_size());
  parallel_for(int64_t(parts.size()), [&](int64_t i) {
    const Part& part = parts[size_t(i)];
    try {
      digest(part, logits.subspan(part.row * V, part.count * V));
    } catch (const Error& error) {
      part.running->end = End::failed;
      part.running->error = error.what();
    }
  });
  deliver();
  return true;
}

void Batcher::abandon(const std::string& reason) {
  for (Running& r : running_) {
    r.end = End::failed;
    r.error = reason;
  }
  deliver();
  const std::scoped_lock lock(mutex_);
  for (const auto& g : waiting_) g->finish(End::failed, reason);
  waiting_.clear();
}

void Batcher::take_waiting() {
  const std::scoped_lock lock(mutex_);
  while (!waiting_.empty() && !free_slots_.empty()) {
    running_.emplace_back(std::move(waiting_.front()), free_slots_.back(), tokenizer_);
    waiting_.pop_front();
    free_slots_.pop_back();
    ++taken_;
  }
}

// Also of those that wait: a queue that is full of what nobody wants would refuse what somebody does.
void Batcher::end_unwanted() {
  const auto now = std::chrono::steady_clock::now();
  const auto unwanted = [&](const Generation& g) -> std::optional<End> {
    if (g.cancelled()) return End::cancelled;
    if (now >= g.request().deadline) return End::late;
    return std::nullopt;
  };
  for (Running& r : running_) r.end = unwanted(*r.generation);
  deliver();
  const std::scoped_lock lock(mutex_);
  std::erase_if(waiting_, [&](const auto& g) {
    const std::optional<End> end = unwanted(*g);
    if (end) g->finish(*end);
    return end.has_value();
  });
}

std::vector<Batcher::Part> Batcher::gather(std::vector<SequenceToken>& rows) {
  std::vector<Part> parts;
  const auto room = size_t(model_.most_tokens());
  for (Running& r : running_) {
    if (!r.writes() || rows.size() == room) continue;
    parts.push_back({&r, rows.size(), 1});
    const size_t position = r.generation->request().prompt.size() + size_t(r.made) - 1;
    rows.push_back({r.last, r.slot, int32_t(position)});
  }
  for (Running& r : running_) {
    if (r.writes() || rows.size() == room) continue;
    const std::vector<int32_t>& prompt = r.generation->request().prompt;
    const size_t n = std::min(prompt.size() - r.read, room - rows.size());
    parts.push_back({&r, rows.size(), n});
    for (size_t i = 0; i < n; ++i, ++r.read) rows.push_back({prompt[r.read], r.slot, int32_t(r.read)});
  }
  return parts;
}

// The logits after each of a part's rows.
void Batcher::digest(const Part& part, std::span<const float> logits) {
  Running& r = *part.running;
  const GenerationRequest& request = r.generation->request();
  const auto V = size_t(model_.vocab_size());
  if (r.made == 0 && request.echo > 0) {
    const size_t begin = r.read - part.count;
    if (begin == 0) echo(r, 0, {});
    for (size_t i = 0; i < part.count && begin + i + 1 < request.prompt.size(); ++i) {
      echo(r, begin + i + 1, logits.subspan(i * V, V));
    }
  }
  if (!r.writes()) return;
  if (request.max_tokens == 0) {
    r.end = End::length;
  } else {
    write(r, logits.last(V));
  }
}

// A token of the prompt, which the logits are of; none: nothing is before it.
void Batcher::echo(Running& r, size_t at, std::span<const float> logits) {
  const GenerationRequest& request = r.generation->request();
  if (at + request.echo < request.prompt.size()) return;
  GeneratedToken token(request.prompt[at], r.decoder.push(request.prompt[at]));
  token.of_prompt = true;
  if (!logits.empty()) score(token, request, logits);
  if (at + 1 == request.prompt.size()) token.text += r.decoder.finish();
  r.fresh.push_back(std::move(token));
}

void Batcher::write(Running& r, std::span<const float> logits) {
  const GenerationRequest& request = r.generation->request();
  const double uniform = sampling_uniform(request.seed, uint64_t(r.made));
  r.last = r.sampler.sample(logits.first(size_t(tokenizer_.vocab_size())), uniform);
  ++r.made;
  const auto show = [&](std::vector<GeneratedToken> tokens) {
    r.fresh.insert(r.fresh.end(), std::make_move_iterator(tokens.begin()),
                   std::make_move_iterator(tokens.end()));
  };
  if (r.last == tokenizer_.eod()) {
    r.end = End::stop;
    show(r.stop.finish());
    // A character that was begun.
    if (std::string rest = r.decoder.finish(); !rest.empty()) r.fresh.emplace_back(r.last, rest);
    return;
  }
  GeneratedToken token(r.last, r.decoder.push(r.last));
  score(token, request, logits);
  const bool full = r.made == request.max_tokens;
  if (full) token.text += r.decoder.finish();
  show(r.stop.push(std::move(token)));
  if (r.stop.stopped()) {
    r.end = End::stop;
  } else if (full) {
    show(r.stop.finish());
    r.end = End::length;
  }
}

void Batcher::score(GeneratedToken& token, const GenerationRequest& request,
                    std::span<const float> logits) const {
  if (!request.top) return;
  const float highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += double(std::exp(x - highest));
  const double base = double(highest) + std::log(sum);
  check(std::isfinite(base), "the model's output is not finite");
  const auto log_prob = [&](int32_t id) { return float(double(logits[size_t(id)]) - base); };
  token.log_prob = log_prob(token.id);
  const auto n = std::min(size_t(*request.top), logits.size());
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + std::ptrdiff_t(n), ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[size_t(a)], y = logits[size_t(b)];
    return x != y ? x > y : a < b;
  });
  for (size_t i = 0; i < n; ++i) token.top.emplace_back(ids[i], log_prob(ids[i]));
}

// Hands out what a step has made, and takes back the slots of what has ended.
void Batcher::deliver() {
  for (Running& r : running_) {
    r.generation->add(std::exchange(r.fresh, {}));
    if (r.end) r.generation->finish(*r.end, r.error);
  }
  std::erase_if(running_, [&](const Running& r) {
    if (!r.end) return false;
    free_slots_.push_back(r.slot);
    const std::scoped_lock lock(mutex_);
    --taken_;
    return true;
  });
}

}  // namespace genesis
