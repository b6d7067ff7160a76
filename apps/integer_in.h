// Whole numbers on a command line.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

namespace genesis {

// For CLI::Option::transform: takes a decimal integer from min to max, and nothing else. CLI11 alone takes 010
// for 8, what is too large for the largest, and -1 for 2^64 - 1; and it tells a range without an end in doubles.
inline CLI::Validator integer_in(int64_t min, int64_t max = std::numeric_limits<int64_t>::max()) {
  const std::string from = std::to_string(min), range = "from " + from + " to " + std::to_string(max);
  const bool open = max == std::numeric_limits<int64_t>::max();
  const auto take = [=](std::string& input) -> std::string {
    int64_t value = 0;
    const char* const end = input.data() + input.size();
    const auto [stopped, error] = std::from_chars(input.data(), end, value);
    const bool large = error == std::errc::result_out_of_range && input[0] != '-';
    if (error != std::errc() || stopped != end || value < min || value > max) {
      return "expected an integer" + (open && !large ? ", at least " + from : " " + range) + ", found " +
             input;
    }
    input = std::to_string(value);
    return "";
  };
  return {take, open ? "at least " + from : range};
}

}  // namespace genesis
