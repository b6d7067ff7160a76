#include "apps/serve/connections.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <vector>

namespace genesis {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(200);

std::string key_of(const std::string& address, int port) { return address + " " + std::to_string(port); }

int port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return -1;
}

// The client at the other end of a socket, if the socket is a connection of the server on this port.
std::optional<std::string> client_of(int fd, int port) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 || port_of(own) != port)
    return std::nullopt;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return std::nullopt;
  char host[NI_MAXHOST];
  if (getnameinfo(reinterpret_cast<sockaddr*>(&peer), peer_size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return std::nullopt;
  return key_of(host, port_of(peer));
}

std::vector<int> open_files() {
  std::vector<int> list;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = item.path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    list.push_back(fd);
  }
  return list;
}

bool has_unread(int fd) {
  int bytes = 0;
  return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

bool has_left(int fd) {
  pollfd p{fd, POLLRDHUP, 0};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

Connections::Connections(int port, std::chrono::milliseconds patience)
    : port_(port), patience_(patience), thread_([this] { watch(); }) {}

Connections::~Connections() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void Connections::begin(const std::string& address, int port) {
  const std::scoped_lock lock(mutex_);
  Connection& c = connections_[key_of(address, port)];
  c = Connection();
  c.answering = c.seen = true;
}

void Connections::end(const std::string& address, int port) {
  const std::scoped_lock lock(mutex_);
  Connection& c = connections_[key_of(address, port)];
  c = Connection();
  c.seen = true;
}

bool Connections::left(const std::string& address, int port) const {
  const std::scoped_lock lock(mutex_);
  const auto it = connections_.find(key_of(address, port));
  return it != connections_.end() && it->second.left;
}

void Connections::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kEvery, [&] { return stopping_; })) look();
}

// With the lock held: between a socket's look-up and its end nothing is decided about it elsewhere. Its own thread may
// close it meanwhile; then the calls here fail, or meet a connection that has just begun, whose client is another.
void Connections::look() {
  const auto now = std::chrono::steady_clock::now();
  for (auto& [key, connection] : connections_) connection.seen = false;
  for (const int fd : open_files()) {
    const std::optional<std::string> client = client_of(fd, port_);
    if (!client) continue;
    Connection& c = connections_[*client];
    c.seen = true;
    if (c.answering) {
      c.left = c.left || has_left(fd);
    } else if (!c.read && has_unread(fd)) {
      c.since = now;
    } else {
      c.read = true;
      if (now - c.since > patience_ && client_of(fd, port_) == client) ::shutdown(fd, SHUT_RDWR);
    }
  }
  std::erase_if(connections_, [](const auto& entry) { return !entry.second.seen; });
}

}  // namespace genesis
