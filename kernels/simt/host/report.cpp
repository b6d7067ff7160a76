#include <fmt/format.h>

#include "kernels/common/error.h"
#include "kernels/simt/session.h"

namespace genesis::simt {

const std::vector<LaunchReport>& Session::reports() const { return reports_; }

const LaunchReport& Session::report(const std::string& name) const {
  const LaunchReport* found = nullptr;
  for (const LaunchReport& r : reports_) {
    if (r.name != name) continue;
    check(!found, "several launches of " + name + " in this session");
    found = &r;
  }
  check(found, "no launch of " + name + " in this session");
  return *found;
}

namespace {

LaunchReport::Traffic traffic(const std::vector<SiteCount>& sites, bool writes) {
  LaunchReport::Traffic t;
  for (const SiteCount& s : sites) {
    if (s.space != Space::global || (s.kind == "store") != writes) continue;
    t.bytes += s.lanes * s.bytes;
    t.sectors += s.sectors;
    t.sectors_needed += s.sectors_needed;
  }
  return t;
}

}  // namespace

LaunchReport::Traffic LaunchReport::global_reads() const { return traffic(sites, false); }
LaunchReport::Traffic LaunchReport::global_writes() const { return traffic(sites, true); }

int64_t LaunchReport::bank_conflicts() const {
  int64_t n = 0;
  for (const SiteCount& s : sites) n += s.bank_conflicts;
  return n;
}

BufferCount LaunchReport::buffer(const void* data) const {
  for (const BufferCount& b : buffers) {
    if (b.data == data) return b;
  }
  return {.data = data};
}

std::string LaunchReport::text() const {
  std::string t = fmt::format("{}: grid {} x {} x {}, block {}, {} bytes shared, {} mma, {} barriers\n", name,
                              grid[0], grid[1], grid[2], block, shared_bytes, mma, barriers);
  for (const SiteCount& s : sites) {
    t +=
        fmt::format("  {}:{}:{} {} {} of {} bytes: {} instructions, {} lanes, ", s.file, s.line, s.column,
                    s.space == Space::global ? "global" : "shared", s.kind, s.bytes, s.instructions, s.lanes);
    t += s.space == Space::global ? fmt::format("{} sectors, {} needed\n", s.sectors, s.sectors_needed)
                                  : fmt::format("{} bank conflicts\n", s.bank_conflicts);
  }
  for (const BufferCount& b : buffers) {
    t += fmt::format("  buffer of {} bytes: {} sectors read, {} different, {} written, {} different\n",
                     b.bytes, b.read, b.distinct_read, b.written, b.distinct_written);
  }
  return t;
}

}  // namespace genesis::simt
