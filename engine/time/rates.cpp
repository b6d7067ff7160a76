#include "engine/time/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <sstream>
#include <vector>

#include "kernels/common/error.h"

namespace genesis {

double Rates::of(Unit unit) const {
  switch (unit) {
    case Unit::library:
      return library;
    case Unit::mma:
      return mma;
    case Unit::fma:
      return fma;
  }
  throw Error("Rates: no such unit");
}

namespace {

// Between kernels of one CUDA graph 0.4 to 0.5 us were measured publicly on an H100, between those of a stream 1
// to 3 us. The same for every card.
constexpr double kLaunchGap = 1e-6;

// Of the data sheet's bytes/s a large copy reaches 911 of 1,008 GB/s on an RTX 4090 (measured publicly; 920 for
// reads alone in github.com/xytpai/nvbench) and 3,020 of 3,350 on an H100: both 90%. The other cards' as well.
constexpr double kCopyFraction = 911. / 1008;

// In GB/s and TFLOP/s. Dense bf16 products with fp32 accumulation, from NVIDIA's data sheets and public
// measurements:
// - library: what cuBLAS reaches with large products. RTX 4090: 160 of 165.2. RTX 5090: 202.9 of 209.5 at 8192^3
//   (github.com/gau-nernst/learn-cuda). A100 271 of 312 and H100 794 of 989 (Maximum Achievable Matmul FLOPS,
//   github.com/stas00/ml-engineering); an H200 has an H100's multiprocessors. B200: 1,610 of 2,250 at 8192^3
//   (pyptx.dev/performance).
// - mma: what mma.sync reaches. Up to Ada, and on consumer Blackwell, it is the only such instruction, and
//   cuBLAS's own: the same rate. On Hopper it reaches 63% of the data sheet's rate (arXiv:2402.13499,
//   arXiv:2501.12084), which takes wgmma. On data-centre Blackwell 569 TFLOP/s (measured publicly on a B300,
//   which has a B200's 148 multiprocessors: 94% of 2,048 FLOP a cycle of each); more takes tcgen05.
//   FlashAttention-2, which is mma.sync too, reaches 362 of them on a B200 (github.com/meta-pytorch/tritonbench,
//   pull request 171).
// - fma: fp32 outside of the tensor cores, the data sheet's.
constexpr Card card(const char* name, const char* product, const char* architecture, double gibibytes,
                    double gigabytes, double library, double mma, double fma) {
  return {name,
          product,
          architecture,
          gibibytes * (1 << 30),
          {gigabytes * 1e9 * kCopyFraction, library * 1e12, mma * 1e12, fma * 1e12, kLaunchGap}};
}

constexpr std::array kCards = {
    card("rtx4090", "RTX 4090", "sm_89", 24, 1008, 160, 160, 82.6),
    card("rtx5090", "RTX 5090", "sm_120", 32, 1792, 202.9, 202.9, 104.8),
    card("a100", "A100 80GB", "sm_80", 80, 2039, 271, 271, 19.5),
    card("h100", "H100 SXM", "sm_90", 80, 3350, 794, 623, 66.9),
    card("h200", "H200", "sm_90", 141, 4800, 794, 623, 66.9),
    card("b200", "B200", "sm_100", 180, 8000, 1610, 569, 75),
};

// Lower case, without what people put between letters and digits.
std::string plain(const std::string& name) {
  std::string s;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') s += char(std::tolower(static_cast<unsigned char>(c)));
  }
  return s;
}

// Whether a word of a device's name, or two, are a card's: "H200", "A100-SXM4-80GB" to its first -, "RTX" "4090". More
// letters or digits are another card: "RTX A1000".
bool names(const std::vector<std::string>& words, const Card& card) {
  std::string before;
  for (const std::string& all : words) {
    const std::string word = plain(all.substr(0, all.find('-')));
    if (word == card.name || before + word == card.name) return true;
    before = word;
  }
  return false;
}

}  // namespace

// About what two cores of a Zen 4 reach in large bf16 products and large copies. Only the ratios matter: they order
// what to compute again.
const Rates kCpuRates{.bytes = 20e9, .library = 400e9, .mma = 400e9, .fma = 100e9};

std::span<const Card> cards() { return kCards; }

const Card& card_named(const std::string& name) {
  const auto same = [&](const char* known) { return plain(name) == plain(known); };
  const auto found = std::find_if(kCards.begin(), kCards.end(),
                                  [&](const Card& c) { return same(c.name) || same(c.product); });
  if (found != kCards.end()) return *found;
  const auto of_architecture = [&](const Card& c) { return same(c.architecture); };
  if (std::count_if(kCards.begin(), kCards.end(), of_architecture) == 1) {
    return *std::find_if(kCards.begin(), kCards.end(), of_architecture);
  }
  throw Error(fmt::format("'{}' does not name a card; there are {}", name, names_of_cards()));
}

const Rates& rates_of(DeviceKind kind, const std::string& name) {
  if (kind == DeviceKind::cpu) return kCpuRates;
  std::istringstream text(name);
  const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  const auto named = [&](const Card& c) { return names(words, c); };
  const auto found = std::find_if(kCards.begin(), kCards.end(), named);
  return (found == kCards.end() ? kCards.front() : *found).rates;
}

std::string names_of_cards() {
  std::string names;
  for (const Card& c : kCards)
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", c.name, c.product);
  return names;
}

}  // namespace genesis
