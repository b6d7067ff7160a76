#include "apps/serve/stop_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace genesis {

std::vector<GeneratedToken> StopText::push(GeneratedToken token) {
  text_ += token.text;
  tokens_.push_back(std::move(token));
  size_t begin = std::string::npos;
  for (const std::string& stop : stops_) begin = std::min(begin, text_.find(stop));
  if (begin == std::string::npos) {
    const size_t from = held_from();
    return from == text_.size() ? finish() : first(from);
  }
  stopped_ = true;
  text_.resize(begin);
  std::vector<GeneratedToken> shown;
  size_t used = 0;
  for (GeneratedToken& t : tokens_) {
    if (used >= begin && !t.text.empty()) break;
    t.text.resize(std::min(t.text.size(), begin - used));
    used += t.text.size();
    shown.push_back(std::move(t));
  }
  tokens_.clear();
  text_.clear();
  return shown;
}

std::vector<GeneratedToken> StopText::finish() {
  text_.clear();
  return std::exchange(tokens_, {});
}

// Where a stop text may have begun.
size_t StopText::held_from() const {
  for (size_t at = 0; at < text_.size(); ++at) {
    const std::string_view rest = std::string_view(text_).substr(at);
    for (const std::string& stop : stops_) {
      if (std::string_view(stop).starts_with(rest)) return at;
    }
  }
  return text_.size();
}

// The held tokens that end within the first bytes.
std::vector<GeneratedToken> StopText::first(size_t bytes) {
  size_t n = 0, used = 0;
  while (n < tokens_.size() && used + tokens_[n].text.size() <= bytes) used += tokens_[n++].text.size();
  std::vector<GeneratedToken> shown(std::make_move_iterator(tokens_.begin()),
                                    std::make_move_iterator(tokens_.begin() + std::ptrdiff_t(n)));
  tokens_.erase(tokens_.begin(), tokens_.begin() + std::ptrdiff_t(n));
  text_.erase(0, used);
  return shown;
}

}  // namespace genesis
