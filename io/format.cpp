#include "io/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace genesis {
namespace {

// Three significant digits of a number from 0 to 1023.
std::string three_digits(double x) {
  if (x < 9.995) return fmt::format("{:.2f}", x);
  if (x < 99.95) return fmt::format("{:.1f}", x);
  return fmt::format("{:.0f}", x);
}

// Divides by `base` until fewer than four digits are left of the point; `limit` is what rounds up to the next
// unit.
template <size_t N>
std::string scaled(double x, double base, double limit, const std::array<std::string_view, N>& units) {
  if (!std::isfinite(x)) return "?";
  if (x < 0) return fmt::format("-{}", scaled(-x, base, limit, units));
  if (x < limit && x == std::floor(x)) return fmt::format("{:.0f}{}", x, units[0]);
  size_t unit = 0;
  while (x >= limit && unit + 1 < N) {
    x /= base;
    ++unit;
  }
  return three_digits(x) + std::string(units[unit]);
}

}  // namespace

std::string format_bytes(double bytes) {
  static constexpr std::array<std::string_view, 6> kUnits{" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  return scaled(bytes, 1024.0, 1023.5, kUnits);
}

std::string format_count(double count) {
  static constexpr std::array<std::string_view, 5> kUnits{"", "k", "M", "B", "T"};
  return scaled(count, 1000.0, 999.5, kUnits);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "?";
  const int64_t s = std::llround(seconds);
  constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (s < kMinute) return fmt::format("{}s", s);
  if (s < kHour) return fmt::format("{}m {:02}s", s / kMinute, s % kMinute);
  if (s < kDay) return fmt::format("{}h {:02}m", s / kHour, s % kHour / kMinute);
  return fmt::format("{}d {:02}h", s / kDay, s % kDay / kHour);
}

}  // namespace genesis
