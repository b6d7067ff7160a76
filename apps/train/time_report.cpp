#include "apps/train/time_report.h"

#include <fmt/format.h>

#include "io/format.h"

namespace genesis {

std::string time_report(const GraphTime& time, const Card& card, double tokens) {
  const Rates& r = card.rates;
  std::string s = fmt::format(
      "{} ({}): {:.0f} GB/s; {:.0f} TFLOP/s bf16 in cuBLASLt, {:.0f} by mma.sync; {:.0f} TFLOP/s fp32; "
      "{:.1f} us a launch\n",
      card.product, card.architecture, r.bytes / 1e9, r.library / 1e12, r.mma / 1e12, r.fma / 1e12,
      r.launch_gap * 1e6);
  s += fmt::format("{:<28}{:>10}{:>12}{:>10}{:>12}{:>9}\n", "a step's kernels", "launches", "bytes", "FLOPs",
                   "ms", "share");
  const auto line = [&](const GraphTime::Row& row) {
    return fmt::format("{:<28}{:>10.0f}{:>12}{:>10}{:>12.2f}{:>8.1f}%\n", row.kernel, row.launches,
                       format_bytes(row.bytes), format_count(row.flops), row.seconds * 1e3,
                       100 * row.seconds / time.total.seconds);
  };
  for (const GraphTime::Row& row : time.rows) s += line(row);
  s += line(time.total);
  s += fmt::format("a layer, forward and backward: {:.3f} ms a micro-step\n", time.layer_seconds * 1e3);
  s += fmt::format("at most {:.0f} tokens/s; not in it:\n", tokens / time.total.seconds);
  for (const char* missing : not_in_the_model()) s += fmt::format("  {}\n", missing);
  return s;
}

}  // namespace genesis
