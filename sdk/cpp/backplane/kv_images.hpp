#pragma once
// Images of KV blocks as ext/kv_transfer.h describes them: where things lie, what headers say, and
// which calls and images are refused.

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/ext/kv_transfer.h"
#include "backplane/program_view.hpp"
#include "backplane/status.hpp"

namespace bp {

class KvImages {
 public:
  // K or V of one slot: rows [block_size, n_heads]. Of a state slot one row of head_dim floats.
  struct Plane {
    uint32_t slot;
    bool is_value;
    uint32_t n_heads;
    uint64_t head_dim;
    bp_dtype dtype;
    uint64_t row_bytes;
    uint64_t offset;  // in the image
  };

  // The types are those of the images' rows. The program has passed validation.
  KvImages(const ProgramView& program, uint32_t block_size, bp_dtype k_dtype, bp_dtype v_dtype,
           uint32_t k_basis = BP_KV_BASIS_PLAIN)
      : n_kv_groups_(program.header().n_kv_groups), block_size_(block_size) {
    for (uint32_t g = 0; g < n_kv_groups_; ++g) {
      groups_.push_back(kv_group(program, g, k_dtype, v_dtype));
      groups_.back().header.k_basis = k_basis;
    }
    if (!program.state_slots().empty()) groups_.push_back(state_group(program));
  }

  [[nodiscard]] uint32_t n_groups() const { return static_cast<uint32_t>(groups_.size()); }
  [[nodiscard]] bool is_state(uint32_t group) const { return group >= n_kv_groups_; }
  [[nodiscard]] uint32_t block_size() const { return block_size_; }
  [[nodiscard]] uint64_t image_bytes(uint32_t group) const {
    return groups_[group].header.image_bytes;
  }
  [[nodiscard]] std::span<const Plane> planes(uint32_t group) const {
    return groups_[group].planes;
  }
  // As prepare answers.
  void describe(bp_kv_image_info& out) const {
    out.n_groups = n_groups();
    for (uint32_t g = 0; g < n_groups(); ++g) out.image_bytes[g] = image_bytes(g);
  }

  // Header and fill; the planes are the caller's to write.
  void begin(uint32_t group, uint8_t* image) const {
    const Group& g = groups_[group];
    std::memcpy(image, &g.header, sizeof g.header);
    std::fill(image + g.end, image + g.header.image_bytes, uint8_t{0});
  }

  // Of an export or import of so many bytes; n_ids of each group are allocated, null block
  // included.
  [[nodiscard]] Status check_call(uint32_t group, std::span<const int32_t> blocks,
                                  uint64_t images_bytes, std::span<const uint32_t> n_ids) const {
    if (group >= n_groups()) {
      return invalid_argument("group " + std::to_string(group) + " does not exist");
    }
    if (n_ids.size() != n_groups()) return invalid_argument("kv_allocate comes before a transfer");
    if (images_bytes != blocks.size() * image_bytes(group)) {
      return invalid_argument(std::to_string(blocks.size()) + " images of group " +
                              std::to_string(group) + " are " +
                              std::to_string(blocks.size() * image_bytes(group)) + " bytes, " +
                              std::to_string(images_bytes) + " were given");
    }
    for (const int32_t block : blocks) {
      if (block >= 1 && static_cast<uint32_t>(block) < n_ids[group]) continue;
      return invalid_argument("block id " + std::to_string(block) + " is not in [1, " +
                              std::to_string(n_ids[group]) + ")");
    }
    return {};
  }

  // That the images fit this cache, and that no block stands twice; after check_call.
  [[nodiscard]] Status check_images(uint32_t group, std::span<const int32_t> blocks,
                                    std::span<const uint8_t> images) const {
    std::vector<int32_t> sorted(blocks.begin(), blocks.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      return invalid_argument("block " + std::to_string(*twice) + " stands twice in an import");
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
      bp_kv_image_header header;
      std::memcpy(&header, images.data() + i * image_bytes(group), sizeof header);
      BP_TRY(check_header(groups_[group].header, header)
                 .with_context("image " + std::to_string(i) + " does not fit"));
    }
    return {};
  }

 private:
  struct Group {
    bp_kv_image_header header{};
    std::vector<Plane> planes;
    uint64_t end = sizeof(bp_kv_image_header);  // of what lies in the image
  };

  static constexpr uint64_t kAlignment = 64;

  static void hash(uint64_t& h, uint64_t value, uint32_t n_bytes) {
    for (uint32_t i = 0; i < n_bytes; ++i) h = (h ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3u;
  }

  static Group begin_group(uint32_t index, uint32_t block_size, bp_dtype k, bp_dtype v) {
    Group group;
    group.header.magic = BP_KV_IMAGE_MAGIC;
    group.header.version = BP_KV_IMAGE_VERSION;
    group.header.group = index;
    group.header.block_size = block_size;
    group.header.k_dtype = k;
    group.header.v_dtype = v;
    group.header.shape = 0xcbf29ce484222325u;
    return group;
  }
  static void add(Group& group, Plane plane, uint64_t n_rows) {
    plane.offset = group.end;
    group.end += n_rows * plane.row_bytes;
    group.header.image_bytes = (group.end + kAlignment - 1) / kAlignment * kAlignment;
    group.planes.push_back(plane);
  }

  [[nodiscard]] Group kv_group(const ProgramView& program, uint32_t index, bp_dtype k,
                               bp_dtype v) const {
    Group group = begin_group(index, block_size_, k, v);
    group.header.image_bytes = sizeof(bp_kv_image_header);
    for (uint32_t s = 0; s < program.kv_slots().size(); ++s) {
      const bp_kv_slot& slot = program.kv_slots()[s];
      if (slot.group != index) continue;
      ++group.header.n_slots;
      for (const uint32_t n : {slot.n_kv_heads, slot.k_head_dim, slot.v_head_dim}) {
        hash(group.header.shape, n, sizeof n);
      }
      const uint64_t n_rows = uint64_t{block_size_} * slot.n_kv_heads;
      add(group, plane(s, false, slot.n_kv_heads, slot.k_head_dim, k), n_rows);
      add(group, plane(s, true, slot.n_kv_heads, slot.v_head_dim, v), n_rows);
    }
    return group;
  }
  [[nodiscard]] Group state_group(const ProgramView& program) const {
    Group group = begin_group(n_kv_groups_, 0, BP_DTYPE_F32, BP_DTYPE_F32);
    for (uint32_t s = 0; s < program.state_slots().size(); ++s) {
      const uint64_t n_floats = program.state_slots()[s].n_floats;
      ++group.header.n_slots;
      hash(group.header.shape, n_floats, sizeof n_floats);
      add(group, plane(s, false, 1, n_floats, BP_DTYPE_F32), 1);
    }
    return group;
  }
  static Plane plane(uint32_t slot, bool is_value, uint32_t n_heads, uint64_t head_dim,
                     bp_dtype dtype) {
    const uint64_t block = dtype_info(dtype).block_elements;
    const uint64_t padded = (head_dim + block - 1) / block * block;
    return {slot, is_value, n_heads, head_dim, dtype, row_bytes(dtype, padded), 0};
  }

  static std::string dtype_text(bp_dtype dtype) { return std::string(dtype_name(dtype)); }

  static Status check_header(const bp_kv_image_header& mine, const bp_kv_image_header& other) {
    const auto differ = [](const char* what, const std::string& found, const std::string& wanted) {
      return invalid_argument(std::string(what) + " is " + found + ", this cache has " + wanted);
    };
    const auto differ_in_number = [&](const char* what, uint64_t found, uint64_t wanted) {
      return differ(what, std::to_string(found), std::to_string(wanted));
    };
    if (other.magic != mine.magic) return invalid_argument("it does not begin with \"BPKV\"");
    if (other.version != mine.version) {
      return differ_in_number("its version", other.version, mine.version);
    }
    if (other.group != mine.group) return differ_in_number("its group", other.group, mine.group);
    if (other.k_dtype != mine.k_dtype) {
      return differ("the type of its keys", dtype_text(other.k_dtype), dtype_text(mine.k_dtype));
    }
    if (other.v_dtype != mine.v_dtype) {
      return differ("the type of its values", dtype_text(other.v_dtype), dtype_text(mine.v_dtype));
    }
    if (other.k_basis != mine.k_basis) {
      return differ_in_number("the basis of its keys", other.k_basis, mine.k_basis);
    }
    if (other.block_size != mine.block_size) {
      return differ_in_number("its block size", other.block_size, mine.block_size);
    }
    if (other.n_slots != mine.n_slots) {
      return differ_in_number("its number of slots", other.n_slots, mine.n_slots);
    }
    if (other.shape != mine.shape) {
      return invalid_argument("its slots have other heads, dimensions or floats");
    }
    if (std::memcmp(&mine, &other, sizeof mine) != 0) {
      return invalid_argument("its size or a reserved field of its header is another one");
    }
    return {};
  }

  uint32_t n_kv_groups_;
  uint32_t block_size_;
  std::vector<Group> groups_;
};

}  // namespace bp
