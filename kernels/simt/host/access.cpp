// A running thread's accesses to memory: checked, counted, done.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/simt/host/worker.h"

namespace genesis::simt::host {

void* Worker::shared_memory(size_t bytes, Site site) {
  if (bytes > shape_.shared_bytes) {
    fail("its shared-memory plan takes " + std::to_string(bytes) + " bytes and the launch gives " +
             std::to_string(shape_.shared_bytes) + ": pass sizeof(Plan) as shared_bytes",
         site);
  }
  return shared_.address();
}

void Worker::check_alignment(uintptr_t address, size_t bytes, const char* verb, Site site) const {
  if (address % bytes == 0) return;
  fail("misaligned: " + std::string(verb) + " " + std::to_string(bytes) + " bytes at an address that is " +
           std::to_string(address % bytes) + " past a multiple of " + std::to_string(bytes),
       site);
}

void Worker::fail_bounds(uintptr_t address, size_t bytes, const char* verb, Site site) const {
  const std::string what = "out of bounds: " + std::string(verb) + " " + std::to_string(bytes) + " bytes at ";
  if (shared_.contains(address)) {
    fail(what + "offset " + std::to_string(shared_.offset(address)) + " of " +
             std::to_string(shared_.bytes()) + " bytes of shared memory",
         site);
  }
  const Allocation* a = global_memory().before(address);
  constexpr size_t kNear = size_t(1) << 20;
  if (a && address - a->address < a->bytes + kNear) {
    fail(what + "offset " + std::to_string(address - a->address) + " of a buffer of " +
             std::to_string(a->bytes) + " bytes",
         site);
  }
  fail(what + "an address that is not in device memory", site);
}

// The bytes behind an address.
unsigned char* Worker::locate(uintptr_t address, size_t bytes, const char* verb, Site site) {
  if (shared_.contains(address)) {
    const size_t offset = shared_.offset(address);
    if (offset + bytes > shared_.bytes()) fail_bounds(address, bytes, verb, site);
    if (bytes < SharedMemory::kSmallestAccess) {
      fail(
          std::string(verb) + " one byte of shared memory: races are told apart by 2 bytes, use a wider type",
          site);
    }
    return shared_.data(offset);
  }
  const Allocation* a = last_allocation_;
  if (!a || address - a->address >= a->bytes) a = last_allocation_ = global_memory().find(address);
  if (!a || address - a->address + bytes > a->bytes) fail_bounds(address, bytes, verb, site);
  return global_memory().view(address);
}

// Joins the access to those of the other lanes in the same instruction. Returns the site's number.
int Worker::note(Space space, Kind kind, uintptr_t address, size_t bytes, Site site) {
  if (!options_.count && !(options_.check_races && space == Space::shared)) return 0;
  const int number = sites_.number({site, space, kind, int(bytes)});
  if (!options_.count) return number;
  Warp& w = warp();
  if (size_t(number) >= w.sites.size()) w.sites.resize(size_t(number) + 1);
  Warp::AtSite& at = w.sites[size_t(number)];
  const int lane = current_->index % 32;
  const size_t k = at.executed[lane]++;
  if (k == 0 && at.instructions.empty()) w.touched.push_back(number);
  if (k >= at.instructions.size()) at.instructions.emplace_back();
  WarpAccess& a = at.instructions[k];
  a.lanes |= 1u << lane;
  a.address[lane] = space == Space::shared ? shared_.offset(address) : address;
  return number;
}

void Worker::close_instructions(Warp& w) {
  for (const int number : w.touched) {
    Warp::AtSite& at = w.sites[size_t(number)];
    for (const WarpAccess& a : at.instructions) counters_.add(number, sites_[number], a);
    at.instructions.clear();
    std::fill(std::begin(at.executed), std::end(at.executed), 0);
  }
  w.touched.clear();
}

SharedMemory::Access Worker::access(int site) const {
  return {shared_.epoch(), warps_[size_t(current_->index) / 32].epoch, uint16_t(current_->index), site};
}

void Worker::check_race(const SharedMemory::Conflict* conflict, const char* verb, Site site) const {
  if (!conflict) return;
  const Site earlier = sites_[conflict->earlier.site].where;
  const std::string what =
      std::string(verb) + " shared memory that thread " + std::to_string(conflict->earlier.thread);
  const std::string at = " (" + std::string(earlier.file_name()) + ":" + std::to_string(earlier.line()) + ")";
  if (conflict->pending) fail("missing wait: " + what + " is still copying to asynchronously" + at, site);
  fail("race: " + what + (conflict->wrote ? " wrote" : " read") + at + " with no barrier between", site);
}

void Worker::expect(uintptr_t address, Where where, Site site) const {
  if (shared_.contains(address) == (where == Where::shared)) return;
  fail(where == Where::shared
           ? "a store with Cache::none to an address that is not in shared memory"
           : "a 16-byte access for global memory alone to shared memory: store there with Cache::none",
       site);
}

void Worker::read(void* value, uintptr_t address, size_t bytes, Kind kind, Site site) {
  check_alignment(address, bytes, "reads", site);
  const unsigned char* data = locate(address, bytes, "reads", site);
  const bool in_shared = shared_.contains(address);
  const int number = note(in_shared ? Space::shared : Space::global, kind, address, bytes, site);
  if (in_shared && options_.check_races) {
    check_race(shared_.read(shared_.offset(address), bytes, access(number)), "reads", site);
  }
  std::memcpy(value, data, bytes);
}

void Worker::write(uintptr_t address, const void* value, size_t bytes, Site site) {
  check_alignment(address, bytes, "writes", site);
  unsigned char* data = locate(address, bytes, "writes", site);
  const bool in_shared = shared_.contains(address);
  const int number = note(in_shared ? Space::shared : Space::global, Kind::store, address, bytes, site);
  if (in_shared && options_.check_races) {
    check_race(shared_.write(shared_.offset(address), bytes, access(number)), "writes", site);
  }
  std::memcpy(data, value, bytes);
}

void Worker::copy_async(uintptr_t shared, uintptr_t global, int bytes, int source_bytes, Site site) {
  const auto size = size_t(bytes);
  if (source_bytes < 0 || source_bytes > bytes)
    fail("asynchronous copy: source size over the copy's size", site);
  check_alignment(shared, size, "copies to", site);
  check_alignment(global, size, "copies from", site);
  if (!shared_.contains(shared)) fail("asynchronous copy to an address that is not in shared memory", site);
  locate(shared, size, "copies to", site);
  const unsigned char* source = nullptr;
  if (source_bytes > 0) {
    source = locate(global, size_t(source_bytes), "copies from", site);
    note(Space::global, Kind::copy, global, size, site);
  }
  const int number = note(Space::shared, Kind::copy, shared, size, site);
  if (options_.check_races) {
    check_race(shared_.begin_copy(shared_.offset(shared), size, access(number)), "copies to", site);
  }
  current_->copies.push_back({source, shared_.offset(shared), bytes, source_bytes, number});
}

void Worker::wait_copies(int groups_left) {
  Thread& t = *current_;
  const auto left = size_t(groups_left);
  if (t.groups.size() <= left) return;
  const size_t landed_groups = t.groups.size() - left;
  const size_t landed = t.groups[landed_groups - 1];
  for (size_t i = 0; i < landed; ++i) {
    const AsyncCopy& c = t.copies[i];
    unsigned char* target = shared_.data(c.target);
    if (c.source_bytes > 0) std::memcpy(target, c.source, size_t(c.source_bytes));
    std::memset(target + c.source_bytes, 0, size_t(c.bytes - c.source_bytes));
    if (options_.check_races) shared_.end_copy(c.target, size_t(c.bytes), access(c.site));
  }
  t.copies.erase(t.copies.begin(), t.copies.begin() + std::ptrdiff_t(landed));
  t.groups.erase(t.groups.begin(), t.groups.begin() + std::ptrdiff_t(landed_groups));
  for (size_t& end : t.groups) end -= landed;
}

}  // namespace genesis::simt::host
