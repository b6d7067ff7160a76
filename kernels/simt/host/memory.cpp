#include "kernels/simt/host/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/error.h"
#include "kernels/simt/buffer.h"

namespace genesis::simt {
namespace host {

void* reserve_addresses(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(p != MAP_FAILED, "cannot reserve " + std::to_string(bytes) + " bytes of addresses: is ulimit -v set?");
  return p;
}

GlobalMemory::GlobalMemory() {
  constexpr size_t kAddresses = size_t(1) << 38;
  next_ = reinterpret_cast<uintptr_t>(reserve_addresses(kAddresses));
  end_ = next_ + kAddresses;
}

void* GlobalMemory::allocate(size_t bytes, const std::string& name) {
  constexpr size_t kAlign = 256;
  // An unused stretch after each allocation, so that running over an end does not reach the next.
  const size_t taken = (bytes + kAlign - 1) / kAlign * kAlign + 16 * kAlign;
  check(taken <= end_ - next_, "simt: no addresses left for " + std::to_string(bytes) + " bytes");
  Allocation a;
  a.address = next_;
  a.bytes = bytes;
  a.data = std::make_unique_for_overwrite<unsigned char[]>(bytes);
  a.name = name;
  std::memset(a.data.get(), 0xff, bytes);
  allocations_.push_back(std::move(a));
  next_ += taken;
  return reinterpret_cast<void*>(allocations_.back().address);
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

void GlobalMemory::release(void* address) noexcept {
  std::erase_if(allocations_, [&](const Allocation& a) { return a.address == reinterpret_cast<uintptr_t>(address); });
}

GlobalMemory& global_memory() {
  static GlobalMemory memory;
  return memory;
}

namespace {

unsigned char* bytes_at(const void* device, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(device);
  const Allocation* a = global_memory().before(address);
  check(a && address - a->address + bytes <= a->bytes,
        "simt: a copy of " + std::to_string(bytes) + " bytes lies outside device memory");
  return a->data.get() + (address - a->address);
}

}  // namespace
}  // namespace host

void* allocate(size_t bytes, const std::string& name) { return host::global_memory().allocate(bytes, name); }
void release(void* device) noexcept { host::global_memory().release(device); }
void copy_in(void* device, const void* source, size_t bytes) {
  if (bytes > 0) std::memcpy(host::bytes_at(device, bytes), source, bytes);
}
void copy_out(void* target, const void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(target, host::bytes_at(device, bytes), bytes);
}

}  // namespace genesis::simt
