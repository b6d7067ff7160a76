// Every call of a save that touches files is made to fail in turn: this program has its own of them.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>

#include "io/checkpoint.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

// What happens to the calls while a test body runs.
struct Faults {
  bool on = false;
  size_t first = 0;      // the call that fails, from 0
  bool lasting = false;  // all later ones, too
  int error = 0;
  std::string only{};  // calls of this name alone; empty: all
  bool (*spared)(std::string_view path) = [](std::string_view) { return false; };
  bool short_writes = false;  // and nothing fails
  size_t calls = 0;
  std::string failed{};  // the first that did
};
Faults faults;

bool fails(const char* call, std::string_view path = "") {
  if (!faults.on || (!faults.only.empty() && faults.only != call) || faults.spared(path)) return false;
  const size_t number = faults.calls++;
  if (faults.error == 0 || (faults.lasting ? number < faults.first : number != faults.first)) return false;
  if (faults.failed.empty()) faults.failed = call;
  errno = faults.error;
  return true;
}

}  // namespace

extern "C" {
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  return fails("open") ? -1 : int(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
ssize_t write(int file, const void* data, size_t n) {
  if (fails("write")) return -1;
  return syscall(SYS_write, file, data, faults.on && faults.short_writes ? (n + 1) / 2 : n);
}
int fsync(int file) { return fails("fsync") ? -1 : int(syscall(SYS_fsync, file)); }
int close(int file) {
  const bool failed = fails("close");  // the file is closed for all that
  const int error = errno, result = int(syscall(SYS_close, file));
  if (!failed) return result;
  errno = error;
  return -1;
}
int rename(const char* from, const char* to) noexcept {
  return fails("rename", from) ? -1 : int(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return fails("renameat2") ? -1 : int(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return fails("mkdir") ? -1 : int(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  return fails("unlinkat") ? -1 : int(syscall(SYS_unlinkat, folder, path, flags));
}
}

namespace {

constexpr int64_t kElements = 1000;

// Every number of a checkpoint's tensors is its content.
struct Scene {
  TempFolder folder{fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()};
  std::string dir = folder.file("run"), two = dir + "/checkpoints/step_00000002";
  std::vector<std::string> warnings;

  void save(int64_t step, float content) {
    std::vector<float> values(kElements, content);
    const TensorView w{"w", StoredDType::f32, {kElements}, values.data()},
        m{"w.m", StoredDType::f32, {kElements}, values.data()};
    CheckpointContent c;
    c.state.step = step;
    c.weights = {w};
    c.masters = whole_slices({&w, 1});
    c.moments = whole_slices({&m, 1});
    c.files = {{"config.json", "{}\n"}};
    save_checkpoint(dir, c, [&](const std::string& line) { warnings.push_back(line); });
  }
  static float content(const std::string& checkpoint) {
    std::vector<float> w(kElements), m(kElements);
    const NamedTensor to_w{"w", StoredDType::f32, {kElements}, w.data()},
        to_m{"w.m", StoredDType::f32, {kElements}, m.data()};
    load_checkpoint(checkpoint, {&to_w, 1}, {&to_m, 1});
    REQUIRE(std::set<float>(w.begin(), w.end()).size() == 1);
    REQUIRE(w == m);
    return w[0];
  }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& e : fs::directory_iterator(dir + "/checkpoints")) names.insert(e.path().filename());
    return names;
  }
};

std::string with_faults(const Faults& armed, const std::function<void()>& body) {
  faults = armed;
  faults.on = true;
  std::string message;
  try {
    message = message_of(body);
  } catch (...) {
    faults.on = false;
    throw;
  }
  faults.on = false;
  return message;
}

// The checkpoint of step 2 before the save under test.
enum class Before { none, whole, broken };

}  // namespace

TEST_CASE("a save of which any call fails says so, leaves what was there, and the next one succeeds") {
  std::set<std::string> failed;
  for (const Before before : {Before::none, Before::whole, Before::broken}) {
    for (const int error : {ENOSPC, EIO, EROFS}) {
      for (const bool lasting : {false, true}) {
        for (size_t first = 0;; ++first) {
          Scene scene;
          scene.save(1, 1);
          if (before != Before::none) scene.save(2, 2);
          if (before == Before::broken) fs::resize_file(scene.two + "/state.json", 10);
          const auto names = scene.names();
          const auto old = content_of(scene.dir + "/checkpoints/step_00000001");
          const std::string message =
              with_faults({.first = first, .lasting = lasting, .error = error}, [&] { scene.save(2, 3); });
          if (faults.failed.empty()) {
            REQUIRE(message == "");
            REQUIRE(first > 20);
            break;
          }
          failed.insert(faults.failed);
          INFO(fmt::format("call {} ({}): {}", first, faults.failed, message));
          REQUIRE(content_of(scene.dir + "/checkpoints/step_00000001") == old);
          // Closing a folder that was synced, or one that was listed, is nothing to a save.
          if (!message.empty()) {
            REQUIRE(lacks(message, std::generic_category().message(error)) == "");
            REQUIRE(lacks(message, scene.dir) == "");
          }
          std::vector<std::string> passed_over;
          const auto latest =
              latest_checkpoint(scene.dir, [&](const std::string& line) { passed_over.push_back(line); });
          const float found = Scene::content(latest.value());
          if (message.empty()) {
            REQUIRE(found == 3);
          } else {
            REQUIRE((found == 3 || found == (before == Before::whole ? 2 : 1)));
            REQUIRE(passed_over.size() <= (before == Before::broken ? 1 : 0));
          }
          // Before it was published no half is left, unless it is removing that fails.
          if (!lasting && found != 3 && faults.failed != "unlinkat") {
            for (const std::string& name : scene.names()) REQUIRE_FALSE(name.ends_with(".tmp"));
          }
          // A checkpoint whose reading failed is not replaced but kept, which is told.
          const bool kept = !scene.warnings.empty();
          scene.warnings.clear();
          scene.save(2, 4);
          REQUIRE(Scene::content(scene.two) == 4);
          auto expected = names;
          expected.insert("step_00000002");
          if (before == Before::broken || kept) expected.insert("step_00000002.unreadable");
          REQUIRE(scene.names() == expected);
        }
      }
    }
  }
  CHECK(failed ==
        std::set<std::string>{"close", "fsync", "mkdir", "open", "rename", "renameat2", "unlinkat", "write"});
}

TEST_CASE("a save whose writes write less than they are asked to is whole") {
  Scene scene;
  CHECK(with_faults({.short_writes = true}, [&] { scene.save(2, 3); }) == "");
  CHECK(Scene::content(scene.two) == 3);
}

TEST_CASE("where a file system cannot exchange two folders a checkpoint is replaced all the same") {
  Scene scene;
  scene.save(1, 1);
  scene.save(2, 2);
  CHECK(with_faults({.error = EINVAL, .only = "renameat2"}, [&] { scene.save(2, 3); }) == "");
  CHECK(faults.failed == "renameat2");
  CHECK(Scene::content(scene.two) == 3);
  CHECK(scene.names() == std::set<std::string>{"step_00000001", "step_00000002"});
}

TEST_CASE("a removal of old checkpoints of which any call fails leaves none in part under its name") {
  for (const bool lasting : {false, true}) {
    for (size_t first = 0;; ++first) {
      Scene scene;
      for (const int64_t step : {1, 2, 3, 4}) scene.save(step, float(step));
      const std::string message = with_faults({.first = first, .lasting = lasting, .error = EIO},
                                              [&] { prune_checkpoints(scene.dir, 2); });
      if (faults.failed.empty()) {
        CHECK(scene.names() == std::set<std::string>{"step_00000003", "step_00000004"});
        REQUIRE(first > 4);
        break;
      }
      INFO(fmt::format("call {} ({}): {}", first, faults.failed, message));
      for (const std::string& name : scene.names()) {
        const std::string path = scene.dir + "/checkpoints/" + name;
        if (!name.ends_with(".tmp")) REQUIRE(Scene::content(path) == float(name.back() - '0'));
      }
      REQUIRE(scene.names().contains("step_00000003"));
      REQUIRE(scene.names().contains("step_00000004"));
      scene.save(4, 4);  // removes what was left of one
      prune_checkpoints(scene.dir, 2);
      REQUIRE(scene.names() == std::set<std::string>{"step_00000003", "step_00000004"});
    }
  }
}

TEST_CASE("older checkpoints that cannot be removed are told of, and the new ones count as saved") {
  TinyRun tiny;
  const Config config =
      tiny.config("run", {"--train.steps=6", "--checkpoint.every=2", "--checkpoint.keep=1"});
  const auto trainer = tiny.trainer(config);
  const std::string message = message_of([&] {
    trainer->run([&] {
      if (trainer->state().step == 1) {
        faults = {.lasting = true, .error = EIO, .only = "rename", .spared = [](std::string_view from) {
                    return from.ends_with(".tmp");
                  }};
        faults.on = true;
      }
      return false;
    });
  });
  faults.on = false;
  CHECK(message == "");
  CHECK(faults.failed == "rename");
  for (const std::string step : {"4", "6"}) {
    CHECK(lacks(tiny.output.str(), "WARNING: step " + step +
                                       " is saved, and older checkpoints that are to go are still "
                                       "there: cannot remove " +
                                       config.run_dir + "/checkpoints/step_0000000") == "");
  }
  for (const std::string step : {"2", "4", "6"}) {
    CHECK(read_checkpoint_state(config.run_dir + "/checkpoints/step_0000000" + step).step ==
          std::stoll(step));
  }
}
