// What a user without special rights is told: tests may run as root, whom no permission stops.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "io/file.h"
#include "tests/support/message_of.h"

namespace genesis {

// message_of(call), made in a child process that has given up root's rights.
template <class Call>
std::string message_unprivileged(const Call& call) {
  constexpr uid_t kNobody = 65534;
  int ends[2];
  if (pipe(ends) != 0) throw_errno("cannot make a pipe");
  const pid_t child = fork();
  if (child == 0) {
    std::string message = "the child could not give up root's rights";
    if (geteuid() != 0 || (setgid(kNobody) == 0 && setuid(kNobody) == 0)) {
      try {
        message = message_of(call);
      } catch (const std::exception& other) {
        message = std::string("not a genesis::Error: ") + other.what();
      }
    }
    const ssize_t written = write(ends[1], message.data(), message.size());
    _exit(written == ssize_t(message.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string message;
  char buffer[1024];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) message.append(buffer, size_t(got));
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return "the child did not come through: " + message;
  }
  return message;
}

}  // namespace genesis
