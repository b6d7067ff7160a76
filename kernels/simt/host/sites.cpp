#include "kernels/simt/host/sites.h"

#include <algorithm>
#include <bit>

namespace genesis::simt::host {
namespace {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::load: return "load";
    case Kind::store: return "store";
    case Kind::copy: return "copy";
    case Kind::matrix: return "matrix";
  }
  return "?";
}

}  // namespace

int SiteTable::number(const AccessSite& site) {
  const size_t mask = slots_.size() - 1;
  const size_t hash = (reinterpret_cast<uintptr_t>(site.where.file_name()) * 31 + site.where.line()) * 131 +
                      site.where.column() * 7 + size_t(site.kind) * 3 + size_t(site.bytes) * 5 + size_t(site.space);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    if (slots_[i] < 0) {
      if (2 * sites_.size() >= slots_.size()) {
        std::vector<AccessSite> old = std::move(sites_);
        sites_.clear();
        slots_.assign(2 * slots_.size(), -1);
        for (const AccessSite& s : old) number(s);
        return number(site);
      }
      slots_[i] = int(sites_.size());
      sites_.push_back(site);
      return slots_[i];
    }
    if (sites_[size_t(slots_[i])] == site) return slots_[i];
  }
}

Sectors count_sectors(const WarpAccess& a, int bytes) {
  uintptr_t first[32];
  int n = 0;
  for (uint32_t m = a.lanes; m; m &= m - 1) first[n++] = a.address[std::countr_zero(m)];
  if (!std::is_sorted(first, first + n)) std::sort(first, first + n);
  // Aligned accesses of up to 16 bytes: each lies in one sector, and two are the same or apart.
  const int distinct = int(std::unique(first, first + n) - first);
  Sectors s;
  for (int i = 0; i < distinct; ++i) s.touched += i == 0 || first[i] / 32 != first[i - 1] / 32;
  s.needed = (distinct * bytes + 31) / 32;
  return s;
}

int count_bank_conflicts(const WarpAccess& a, int bytes) {
  const int lanes_a_phase = bytes <= 4 ? 32 : 128 / bytes;
  const int words = std::max(bytes / 4, 1);
  int conflicts = 0;
  for (int lane = 0; lane < 32; lane += lanes_a_phase) {
    uintptr_t seen[32];
    int n = 0;
    for (int i = lane; i < lane + lanes_a_phase; ++i) {
      if (!(a.lanes >> i & 1)) continue;
      for (int w = 0; w < words; ++w) {
        const uintptr_t word = a.address[i] / 4 + uintptr_t(w);
        if (std::find(seen, seen + n, word) == seen + n) seen[n++] = word;
      }
    }
    int per_bank[32] = {}, most = 0;
    for (int i = 0; i < n; ++i) most = std::max(most, ++per_bank[seen[i] % 32]);
    conflicts += std::max(most - 1, 0);
  }
  return conflicts;
}

void Counters::add(int site, const AccessSite& where, const WarpAccess& a) {
  if (size_t(site) >= counts_.size()) counts_.resize(size_t(site) + 1);
  SiteCount& c = counts_[size_t(site)];
  if (c.instructions == 0) {
    c.file = where.where.file_name();
    c.line = where.where.line();
    c.column = where.where.column();
    c.space = where.space;
    c.kind = name_of(where.kind);
    c.bytes = where.bytes;
  }
  c.instructions += 1;
  c.lanes += std::popcount(a.lanes);
  if (where.space == Space::global) {
    const Sectors s = count_sectors(a, where.bytes);
    c.sectors += s.touched;
    c.sectors_needed += s.needed;
  } else {
    c.bank_conflicts += count_bank_conflicts(a, where.bytes);
  }
}

std::vector<SiteCount> Counters::counts() const {
  std::vector<SiteCount> used;
  for (const SiteCount& c : counts_) {
    if (c.instructions > 0) used.push_back(c);
  }
  return used;
}

}  // namespace genesis::simt::host
