// Ends a text where one of some others begins.
#pragma once

#include <string>
#include <vector>

#include "apps/serve/generation.h"

namespace genesis {

// Tokens go through it one by one. Those whose text may be the beginning of a stop text are held back.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What can be shown now. Once a stop text is whole, stopped() is true and what is returned ends before it: of several
  // that are whole at once, before the one that begins first.
  std::vector<GeneratedToken> push(GeneratedToken token);
  // What is held, when no more tokens come.
  std::vector<GeneratedToken> finish();
  bool stopped() const { return stopped_; }

 private:
  size_t held_from() const;
  std::vector<GeneratedToken> first(size_t bytes);

  std::vector<std::string> stops_;
  std::vector<GeneratedToken> tokens_;  // held
  std::string text_;                    // theirs
  bool stopped_ = false;
};

}  // namespace genesis
