#include "kernels/simt/host/sites.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>

namespace genesis::simt::host {
namespace {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::load:
      return "load";
    case Kind::store:
      return "store";
    case Kind::copy:
      return "copy";
    case Kind::matrix:
      return "matrix";
  }
  return "?";
}

}  // namespace

int SiteTable::number(const AccessSite& site) {
  const size_t mask = slots_.size() - 1;
  const size_t hash = (reinterpret_cast<uintptr_t>(site.where.file_name()) * 31 + site.where.line()) * 131 +
                      site.where.column() * 7 + size_t(site.kind) * 3 + size_t(site.bytes) * 5 +
                      size_t(site.space);
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

Sectors sectors_of(const WarpAccess& a, int bytes) {
  uintptr_t first[32];
  int n = 0;
  for (uint32_t m = a.lanes; m; m &= m - 1) first[n++] = a.address[std::countr_zero(m)];
  if (!std::is_sorted(first, first + n)) std::sort(first, first + n);
  // Aligned accesses of up to 16 bytes: each lies in one sector, and two are the same or apart.
  const int distinct = int(std::unique(first, first + n) - first);
  Sectors s;
  for (int i = 0; i < distinct; ++i) {
    if (s.touched == 0 || s.sector[s.touched - 1] != first[i] / 32) s.sector[s.touched++] = first[i] / 32;
  }
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

void Counters::BufferUse::touch(size_t sector) {
  ++count;
  if (sector / 64 >= sectors.size()) sectors.resize(sector / 64 + 1);
  sectors[sector / 64] |= uint64_t(1) << sector % 64;
}

void Counters::BufferUse::add(const BufferUse& other) {
  count += other.count;
  if (sectors.size() < other.sectors.size()) sectors.resize(other.sectors.size());
  for (size_t i = 0; i < other.sectors.size(); ++i) sectors[i] |= other.sectors[i];
}

int64_t Counters::BufferUse::distinct() const {
  int64_t n = 0;
  for (const uint64_t bits : sectors) n += std::popcount(bits);
  return n;
}

Counters::BufferUses& Counters::uses_of(uintptr_t address) {
  for (BufferUses& b : buffers_) {
    if (address - b.buffer->address < b.buffer->bytes) return b;
  }
  buffers_.push_back({global_memory().find(address), {}, {}});
  return buffers_.back();
}

void Counters::touch(const Sectors& s, bool write) {
  for (int i = 0; i < s.touched; ++i) {
    BufferUses& b = uses_of(s.sector[i] * 32);
    (write ? b.written : b.read).touch(s.sector[i] - b.buffer->address / 32);
  }
}

void Counters::add(int site, const AccessSite& where, const WarpAccess& a) {
  if (size_t(site) >= sites_.size()) sites_.resize(size_t(site) + 1);
  SiteCount& c = sites_[size_t(site)];
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
    const Sectors s = sectors_of(a, where.bytes);
    c.sectors += s.touched;
    c.sectors_needed += s.needed;
    touch(s, where.kind == Kind::store);
  } else {
    c.bank_conflicts += count_bank_conflicts(a, where.bytes);
  }
}

void Counters::add(const Counters& other) {
  sites_.insert(sites_.end(), other.sites_.begin(), other.sites_.end());
  for (const BufferUses& b : other.buffers_) {
    BufferUses& mine = uses_of(b.buffer->address);
    mine.read.add(b.read);
    mine.written.add(b.written);
  }
}

void Counters::fill(LaunchReport& report) const {
  std::vector<SiteCount> sites;
  std::copy_if(sites_.begin(), sites_.end(), std::back_inserter(sites),
               [](const SiteCount& s) { return s.instructions > 0; });
  const auto key = [](const SiteCount& s) {
    return std::tie(s.file, s.line, s.column, s.space, s.kind, s.bytes);
  };
  std::sort(sites.begin(), sites.end(),
            [&](const SiteCount& a, const SiteCount& b) { return key(a) < key(b); });
  for (const SiteCount& s : sites) {
    if (report.sites.empty() || key(report.sites.back()) != key(s)) {
      report.sites.push_back(s);
      continue;
    }
    SiteCount& m = report.sites.back();
    m.instructions += s.instructions;
    m.lanes += s.lanes;
    m.sectors += s.sectors;
    m.sectors_needed += s.sectors_needed;
    m.bank_conflicts += s.bank_conflicts;
  }
  for (const BufferUses& b : buffers_) {
    report.buffers.push_back({reinterpret_cast<const void*>(b.buffer->address), b.buffer->bytes, b.read.count,
                              b.written.count, b.read.distinct(), b.written.distinct()});
  }
  std::sort(report.buffers.begin(), report.buffers.end(),
            [](const BufferCount& a, const BufferCount& b) { return a.data < b.data; });
}

}  // namespace genesis::simt::host
