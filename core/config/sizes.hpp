#pragma once
// "2GiB", "512 MB", "1048576": sizes in bytes as people write them.

#include <cstdint>
#include <optional>
#include <string_view>

namespace bp::config {

// Units B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB; nullopt where it is none of that
// or does not fit.
std::optional<uint64_t> parse_size(std::string_view text);

}  // namespace bp::config
