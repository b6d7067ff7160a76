// Watches a server's connections from beside it, as its library gives each a thread and waits there: closes those that
// take too long over a request, so that they keep no thread from others, and tells of clients that have left.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace genesis {

class Connections {
 public:
  // Of the server on `port`, in this process. A request's line and headers may take so long, and so may a connection
  // that is kept for another one.
  Connections(int port, std::chrono::milliseconds patience);
  ~Connections();

  // By a connection's thread: a request's headers are there; its answer has been written. The client by its address
  // and port, as the socket tells them.
  void begin(const std::string& address, int port);
  void end(const std::string& address, int port);
  // Whether the client of a request that has begun is gone.
  bool left(const std::string& address, int port) const;

 private:
  struct Connection {
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    // read: all it has sent, so that it is the client that others wait for, and not a thread that this one waits for.
    bool read = false, answering = false, left = false, seen = false;
  };
  void watch();
  void look();

  const int port_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  std::map<std::string, Connection> connections_;
  bool stopping_ = false;
  std::condition_variable stop_;
  std::thread thread_;
};

}  // namespace genesis
