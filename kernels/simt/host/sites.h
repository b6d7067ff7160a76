// The accesses of one launch by their place in the source, and what a warp's instructions at each cost.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/simt/host/hooks.h"
#include "kernels/simt/host/memory.h"
#include "kernels/simt/session.h"

namespace genesis::simt::host {

struct AccessSite {
  Site where;
  Space space = Space::global;
  Kind kind = Kind::load;
  int bytes = 0;

  bool operator==(const AccessSite& o) const {
    return where.line() == o.where.line() && where.column() == o.where.column() && space == o.space &&
           kind == o.kind && bytes == o.bytes && where.file_name() == o.where.file_name();
  }
};

// Small numbers for sites.
class SiteTable {
 public:
  SiteTable() : slots_(1024, -1) {}
  int number(const AccessSite& site);
  const AccessSite& operator[](int number) const { return sites_[size_t(number)]; }
  int size() const { return int(sites_.size()); }

 private:
  std::vector<AccessSite> sites_;
  std::vector<int> slots_;  // open addressing, at most half full
};

// One instruction of a warp: the addresses of the lanes that took part.
struct WarpAccess {
  uint32_t lanes = 0;
  uintptr_t address[32] = {};
};

// The different 32-byte sectors touched, by address / 32, and the fewest that could hold the distinct bytes.
struct Sectors {
  uintptr_t sector[32];
  int touched = 0, needed = 0;
};
Sectors sectors_of(const WarpAccess& a, int bytes);

// Passes over the 32 four-byte banks beyond the fewest that this access size takes. Accesses of 8 bytes are
// served by half-warps, of 16 bytes by quarter-warps; lanes that want the same word share it. Offsets are
// from the start of shared memory.
int count_bank_conflicts(const WarpAccess& a, int bytes);

// What a launch's blocks did, or some of them.
class Counters {
 public:
  void add(int site, const AccessSite& where, const WarpAccess& a);
  // What others counted; their site numbers are their own.
  void add(const Counters& other);
  void fill(LaunchReport& report) const;

 private:
  struct BufferUse {
    int64_t count = 0;
    std::vector<uint64_t> sectors;  // a bit each
    void touch(size_t sector);
    void add(const BufferUse& other);
    int64_t distinct() const;
  };
  struct BufferUses {
    const Allocation* buffer = nullptr;
    BufferUse read, written;
  };
  void touch(const Sectors& s, bool write);
  BufferUses& uses_of(uintptr_t address);

  std::vector<SiteCount> sites_;
  std::vector<BufferUses> buffers_;
};

}  // namespace genesis::simt::host
