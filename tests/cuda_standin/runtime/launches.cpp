#include "tests/cuda_standin/runtime/launches.h"

#include "kernels/simt/host/queue.h"

namespace genesis::standin {
namespace {

TakeLaunch taker = nullptr;

void run(const simt::host::Launched& launched, uint64_t seed) {
  constexpr simt::Order kOrders[] = {simt::Order::forward, simt::Order::reverse, simt::Order::shuffled};
  simt::Session session({.order = kOrders[seed % 3], .seed = seed, .check_races = false, .count = false});
  simt::host::run(launched);
}

}  // namespace

void take_launches(TakeLaunch take) {
  taker = take;
  simt::host::give_launches_to([](simt::host::Launched launched, Stream stream) {
    const char* name = launched.shape.name;
    taker(
        name, [launched = std::move(launched)](uint64_t seed) { run(launched, seed); }, stream);
  });
}

}  // namespace genesis::standin
