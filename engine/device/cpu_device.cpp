#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/device/device.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

constexpr size_t kHugePage = size_t(2) << 20;

// Work is done when its call returns, and so is this.
class CopyAtOnce final : public QueuedCopy {
 public:
  explicit CopyAtOnce(size_t bytes) : bytes_(bytes) {}
  void begin(const void* device) override { std::memcpy(bytes_.data(), device, bytes_.size()); }
  const void* wait() override { return bytes_.data(); }

 private:
  std::vector<char> bytes_;
};

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string name() const override { return "the CPU"; }

  void* allocate(size_t bytes) override {
    // Big arrays start on a huge page and ask for more of them: the step walks all its memory every time, and
    // with 4 KiB pages the TLB would miss on each.
    const size_t align = bytes >= kHugePage ? kHugePage : 256;
    const size_t rounded = (std::max<size_t>(bytes, 1) + align - 1) / align * align;
    check(rounded <= total_memory(), message(bytes));
    void* p = std::aligned_alloc(align, rounded);
    check(p != nullptr, message(bytes));
    if (align == kHugePage) madvise(p, rounded, MADV_HUGEPAGE);
    std::memset(p, 0, rounded);
    return p;
  }

  void release(void* p) override { std::free(p); }
  void copy_in(void* device, const void* host, size_t bytes) override { std::memcpy(device, host, bytes); }
  void copy_out(void* host, const void* device, size_t bytes) override { std::memcpy(host, device, bytes); }
  std::unique_ptr<QueuedCopy> make_queued_copy(size_t bytes) override {
    return std::make_unique<CopyAtOnce>(bytes);
  }
  Stream stream() override { return {}; }

  size_t total_memory() const override {
    return size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  }

 private:
  std::string message(size_t bytes) const {
    return fmt::format(
        "not enough memory: {:.1f} MiB wanted in one piece, this machine has {:.1f} MiB in all",
        double(bytes) / (1 << 20), double(total_memory()) / (1 << 20));
  }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace genesis
