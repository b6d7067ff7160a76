// That the session of a GPU does what session.h says, on which "under graph capture" rests.
#include "kernels/common/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("session: but for the forward order, launches wait in a graph until finish()") {
  for (const simt::Order order : {simt::Order::reverse, simt::Order::shuffled}) {
    Buffer x(DType::f32, 1000, simt::kDeviceMemory);
    const auto zero = [&] { cuda::zero({x.size() * 4, x.data()}, {}); };
    {
      simt::Session session({.order = order});
      for (const double value : {3.0, 5.0}) {  // finish() opens the next graph
        x.fill(value);
        zero();
        CHECK(x.get(999) == value);
        simt::finish();
        CHECK(x.get(999) == 0);
      }
      x.fill(7);
      zero();  // never run
    }
    simt::finish();
    CHECK(x.get(999) == 7);
  }
}

TEST_CASE("session: one is open at a time") {
  const simt::Session session;
  CHECK_THROWS_AS(simt::Session(), Error);
}

TEST_CASE("session: arrays may be made and given back while launches are captured") {
  Buffer kept;
  simt::in_all_orders([&](simt::Session&) {
    const Buffer x(DType::f32, 100, simt::kDeviceMemory);
    cuda::zero({x.size() * 4, x.data()}, {});
    simt::finish();
    CHECK(x.get(99) == 0);
    kept = Buffer(DType::f32, 100, simt::kDeviceMemory);
    cuda::zero({kept.size() * 4, kept.data()}, {});
    simt::finish();
    CHECK(kept.get(0) == 0);
  });
}
