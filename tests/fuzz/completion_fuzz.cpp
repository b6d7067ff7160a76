// Any bytes are a request that is read whole, or refused as the API refuses: for libFuzzer (scripts/fuzz.sh).
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "apps/serve/api_error.h"
#include "apps/serve/completion_request.h"

using namespace genesis;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto promised = [](bool kept) {
    if (!kept) std::abort();
  };
  try {
    const CompletionRequest r = parse_completion({reinterpret_cast<const char*>(data), size});
    promised(!r.prompts.empty() && r.n >= 1 && int64_t(r.prompts.size()) * r.n <= kMostCompletions);
    promised(r.max_tokens >= 0 && r.sampling.top_k >= 0 && r.recurrence >= 0);
    promised(std::isfinite(r.sampling.temperature) && r.sampling.temperature >= 0);
    promised(r.sampling.top_p > 0 && r.sampling.top_p <= 1);
    const Sampler sampler(r.sampling);  // takes what was let through
    for (const Prompt& p : r.prompts) {
      if (const auto* ids = std::get_if<std::vector<int32_t>>(&p)) {
        for (const int32_t id : *ids) promised(id >= 0);
      }
    }
  } catch (const ApiError& e) {
    promised(e.status == 400);
    json_of(e).dump();  // throws unless it is UTF-8
  }
  return 0;
}
