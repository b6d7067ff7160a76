#include "apps/train/step_time.h"

#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("the time of a step is that of most steps: neither the first ones nor a hiccup spoil it") {
  StepTime time;
  CHECK(time.typical() == 0);
  time.add(100);
  CHECK(time.typical() == 100);  // all that is known
  time.add(2);
  CHECK(time.typical() == 2);
  time.add(9);  // the second may be slow, too
  CHECK(time.typical() == 2);
  for (int i = 0; i < 5; ++i) time.add(1);
  CHECK(time.typical() == 1);
  for (int i = 0; i < 5; ++i) {
    time.add(50);
    CHECK(time.typical() <= 2);
  }
  // A change that stays is followed.
  for (int i = 0; i < 9; ++i) time.add(50);
  CHECK(time.typical() == 50);
}
