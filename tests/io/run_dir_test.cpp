#include "io/run_dir.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

std::string same(const std::string&, const std::string&) { return ""; }

std::string equal(const std::string& held, const std::string& wanted) {
  return held == wanted ? "" : "'" + held + "' is not '" + wanted + "'";
}

}  // namespace

TEST_CASE("a run's folder is created, claimed, and given back") {
  const TempFolder folder;
  const std::string run = folder.file("runs/a");
  {
    const RunClaim claim = claim_run_dir(run, "d: 1\n", equal);
    CHECK(read_text_file(run + "/config.yaml") == "d: 1\n");
    // Another open file is another owner, so that a second claim in this process stands for a second process.
    const std::string refused = message_of([&] { claim_run_dir(run, "d: 1\n", equal); });
    CHECK(refused.find(run + " is in use by another process (its id: " + std::to_string(getpid())) == 0);
  }
  std::optional<RunClaim> claim = claim_run_dir(run, "d: 1\n", equal);
  RunClaim moved = std::move(*claim);
  claim.reset();
  CHECK_FALSE(message_of([&] { claim_run_dir(run, "d: 1\n", equal); }).empty());
}

TEST_CASE("a claim ends with its process, however that ends") {
  const TempFolder folder;
  const std::string run = folder.file("run");
  const pid_t child = fork();
  if (child == 0) {
    const RunClaim claim = claim_run_dir(run, "", same);
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(read_text_file(run + "/lock") == std::to_string(child));
  claim_run_dir(run, "", same);
}

TEST_CASE("a folder that holds another run is refused and left as it is") {
  const TempFolder folder;
  const std::string run = folder.file("run");
  claim_run_dir(run, "d: 1\n", equal);
  const std::string refused = message_of([&] { claim_run_dir(run, "d: 2\n", equal); });
  CHECK(refused.find(run + " holds another run: 'd: 1\n' is not 'd: 2\n'. Choose another folder") == 0);
  CHECK(read_text_file(run + "/config.yaml") == "d: 1\n");
  claim_run_dir(run, "d: 2\n", same);  // a difference that doesn't matter: the run goes on with the new text
  CHECK(read_text_file(run + "/config.yaml") == "d: 2\n");

  const std::string lost = folder.file("lost");
  fs::create_directories(lost + "/checkpoints");
  CHECK(message_of([&] { claim_run_dir(lost, "", same); }).find("checkpoints but no config.yaml") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(lost + "/lock"));
}

TEST_CASE("a folder that can't be written is refused") {
  const TempFolder folder;
  replace_text_file(folder.file("file"), "");
  CHECK(message_of([&] { claim_run_dir(folder.file("file"), "", same); }).find("cannot") == 0);
  CHECK(message_of([&] { claim_run_dir(folder.file("file/run"), "", same); }).find("cannot create") == 0);
  CHECK(message_of([&] { claim_run_dir("/proc/run", "", same); }).find("cannot create") == 0);
  CHECK(message_of([&] { claim_run_dir("/proc", "", same); }).find("cannot write into the run's folder") ==
        0);
}
