#include "kernels/simt/host/shared.h"

#include <sys/mman.h>

#include <cstring>

#include "kernels/simt/host/memory.h"

namespace genesis::simt::host {
namespace {

constexpr int kWarp = 32;

// Of an access by one thread.
bool ordered_after(const SharedMemory::Access& earlier, const SharedMemory::Access& now) {
  if (earlier.block_epoch != now.block_epoch) return earlier.block_epoch < now.block_epoch;
  if (earlier.thread == now.thread) return true;
  return earlier.thread / kWarp == now.thread / kWarp && earlier.warp_epoch < now.warp_epoch;
}

}  // namespace

SharedMemory::SharedMemory()
    : address_(reserve_addresses(kMostBytes)), data_(kMostBytes), granules_(kMostBytes / kGranule) {}

SharedMemory::~SharedMemory() { munmap(address_, kMostBytes); }

void SharedMemory::begin_block(size_t bytes) {
  bytes_ = bytes;
  std::memset(data_.data(), 0xff, bytes);
  ++epoch_;
  // A copy that the last block did not wait for.
  for (size_t g = 0; g < (bytes + kGranule - 1) / kGranule; ++g) {
    if (granules_[g].write.block_epoch == kPending) granules_[g].write.block_epoch = 0;
  }
}

const SharedMemory::Conflict* SharedMemory::conflict(const Access& earlier, bool wrote) {
  conflict_ = {earlier, wrote, wrote && earlier.block_epoch == kPending};
  // Readers that were several: name the first lane of their warp.
  if (conflict_.earlier.thread == kManyWarps) conflict_.earlier.thread = 0;
  if (conflict_.earlier.thread & kWarpReaders) {
    conflict_.earlier.thread = uint16_t((conflict_.earlier.thread & ~kWarpReaders) * kWarp);
  }
  return &conflict_;
}

const SharedMemory::Conflict* SharedMemory::read(size_t offset, size_t bytes, const Access& a) {
  for (size_t g = offset / kGranule; g < (offset + bytes) / kGranule; ++g) {
    Granule& x = granules_[g];
    if (!ordered_after(x.write, a)) return conflict(x.write, true);
    Access& r = x.read;
    const uint16_t warp = a.thread / kWarp;
    if (r.block_epoch != a.block_epoch || r.thread == a.thread) {
      r = a;
    } else if (r.thread == kManyWarps) {
      continue;
    } else if ((r.thread & kWarpReaders ? r.thread & ~kWarpReaders : r.thread / kWarp) != warp) {
      r.thread = kManyWarps;
    } else if (r.warp_epoch < a.warp_epoch) {
      r = a;  // whoever races with the older readers races with this one
    } else {
      r.thread = uint16_t(warp | kWarpReaders);
    }
  }
  return nullptr;
}

const SharedMemory::Conflict* SharedMemory::write(size_t offset, size_t bytes, const Access& a) {
  for (size_t g = offset / kGranule; g < (offset + bytes) / kGranule; ++g) {
    Granule& x = granules_[g];
    if (!ordered_after(x.write, a)) return conflict(x.write, true);
    const Access& r = x.read;
    if (r.block_epoch == a.block_epoch) {
      if (r.thread == kManyWarps) return conflict(r, false);
      if (r.thread & kWarpReaders) {
        const bool same_warp = (r.thread & ~kWarpReaders) == a.thread / kWarp;
        if (!same_warp || r.warp_epoch >= a.warp_epoch) return conflict(r, false);
      } else if (!ordered_after(r, a)) {
        return conflict(r, false);
      }
    }
    x.write = a;
  }
  return nullptr;
}

const SharedMemory::Conflict* SharedMemory::begin_copy(size_t offset, size_t bytes, const Access& a) {
  if (const Conflict* c = write(offset, bytes, a)) return c;
  for (size_t g = offset / kGranule; g < (offset + bytes) / kGranule; ++g)
    granules_[g].write.block_epoch = kPending;
  return nullptr;
}

void SharedMemory::end_copy(size_t offset, size_t bytes, const Access& a) {
  for (size_t g = offset / kGranule; g < (offset + bytes) / kGranule; ++g) granules_[g].write = a;
}

}  // namespace genesis::simt::host
