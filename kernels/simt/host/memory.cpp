#include "kernels/simt/host/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "kernels/common/error.h"
#include "kernels/simt/device.h"

namespace genesis::simt {
namespace host {
namespace {

constexpr size_t kFileBytes = size_t(1) << 38;  // of addresses; memory is taken where it is touched
constexpr size_t kPage = 4096;

unsigned char* map(int file, size_t bytes, int protection) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* p = mmap(nullptr, bytes, protection, flags | MAP_NORESERVE, file, 0);
  check(p != MAP_FAILED,
        "simt: cannot reserve " + std::to_string(bytes) + " bytes of addresses: is ulimit -v set?");
  return static_cast<unsigned char*>(p);
}

}  // namespace

void* reserve_addresses(size_t bytes) { return map(-1, bytes, PROT_NONE); }

GlobalMemory::GlobalMemory() {
  file_ = memfd_create("simt", MFD_CLOEXEC);
  check(file_ >= 0 && ftruncate(file_, kFileBytes) == 0, "simt: cannot make a file in memory");
  base_ = map(file_, kFileBytes, PROT_READ | PROT_WRITE);
  view_ = map(file_, kFileBytes, PROT_READ | PROT_WRITE);
}

void* GlobalMemory::allocate(size_t bytes, size_t guard) {
  // Whole pages, so that they can be given back, and one between allocations that nobody may touch.
  const size_t taken = (bytes + guard + kPage - 1) / kPage * kPage + kPage;
  check(taken <= kFileBytes - used_, "simt: no addresses left for " + std::to_string(bytes) + " bytes");
  open();
  allocations_.push_back({reinterpret_cast<uintptr_t>(base_ + used_), bytes, count_++});
  used_ += taken;
  return base_ + (used_ - taken);
}

void GlobalMemory::release(void* address) noexcept {
  const auto it = std::find_if(allocations_.begin(), allocations_.end(), [&](const Allocation& a) {
    return a.address == reinterpret_cast<uintptr_t>(address);
  });
  const auto offset = static_cast<unsigned char*>(address) - base_;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
            off_t((it->bytes + kPage - 1) / kPage * kPage));
  allocations_.erase(it);
}

void GlobalMemory::protect(bool readable) {
  if (readable == open_ || used_ == 0 || kept_closed_) return;
  check(mprotect(base_, used_, readable ? PROT_READ | PROT_WRITE : PROT_NONE) == 0, "simt: mprotect failed");
  open_ = readable;
}

void GlobalMemory::keep_closed() {
  if (kept_closed_) return;
  check(mprotect(base_, kFileBytes, PROT_NONE) == 0, "simt: mprotect failed");
  kept_closed_ = true;
}

const Allocation* GlobalMemory::before(uintptr_t address) const {
  const auto after = std::upper_bound(allocations_.begin(), allocations_.end(), address,
                                      [](uintptr_t x, const Allocation& a) { return x < a.address; });
  return after == allocations_.begin() ? nullptr : &*std::prev(after);
}

const Allocation* GlobalMemory::find(uintptr_t address) const {
  const Allocation* a = before(address);
  return a && address - a->address < a->bytes ? a : nullptr;
}

GlobalMemory& global_memory() {
  static GlobalMemory memory;
  return memory;
}

}  // namespace host

const Memory kDeviceMemory = {
    [](size_t bytes, size_t guard) { return host::global_memory().allocate(bytes, guard); },
    [](void* p) { host::global_memory().release(p); }};

void finish() { host::global_memory().open(); }

}  // namespace genesis::simt
