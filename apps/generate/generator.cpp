#include "apps/generate/generator.h"

#include <algorithm>
#include <vector>

#include "kernels/common/error.h"

namespace genesis {

std::span<const float> Generator::append(std::span<const int32_t> tokens) {
  require(!tokens.empty(), "something to append");
  const int64_t room = model_.cache().T_max;
  check(length_ + int64_t(tokens.size()) <= room, "the sequence has grown to " +
                                                      std::to_string(length_ + int64_t(tokens.size())) +
                                                      " tokens, and the cache holds " + std::to_string(room));
  std::span<const float> logits;
  while (!tokens.empty()) {
    const auto some = tokens.first(std::min(tokens.size(), size_t(model_.most_tokens())));
    std::vector<SequenceToken> rows;
    for (const int32_t token : some) rows.push_back({token, 0, int32_t(length_++)});
    logits = model_.run(rows);
    tokens = tokens.subspan(some.size());
  }
  return logits.last(size_t(model_.vocab_size()));
}

}  // namespace genesis
