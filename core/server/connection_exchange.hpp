#pragma once
// The exchange that a connection gives to a handler.

#include <cstdint>
#include <memory>

#include "core/server/http.hpp"

namespace bp::server {

class Connection;
struct Shared;

// Passes answers from any thread to the connection's thread; drops them once the connection is
// gone. `id` says which of the connection's requests is meant.
std::shared_ptr<Exchange> make_exchange(std::shared_ptr<Shared> shared,
                                        std::weak_ptr<Connection> connection, uint64_t id);

}  // namespace bp::server
