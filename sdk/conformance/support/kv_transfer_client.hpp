#pragma once
// "bp.kv-transfer/1" of a backend, for tests. Throws Skip where it is not offered.

#include <cstdint>
#include <string>
#include <vector>

#include "backplane/ext/kv_transfer.h"
#include "sdk/conformance/support/backend_session.hpp"

namespace bp::conformance {

class KvTransferClient {
 public:
  using Bytes = std::vector<uint8_t>;

  // The session is compiled and has no blocks yet; it outlives this.
  explicit KvTransferClient(BackendSession& session)
      : session_(session), table_(find(session)), info_(make_growable<bp_kv_image_info>()) {
    const Status status =
        call([&](bp_error* error) { return table_.prepare(session_.executable(), &info_, error); });
    if (status.code() == Code::kUnsupported) throw Skip("no images: " + status.message());
    if (!status.ok()) throw Failure("prepare: " + status.message());
  }

  [[nodiscard]] uint32_t n_groups() const { return info_.n_groups; }
  [[nodiscard]] uint64_t image_bytes(uint32_t group) const { return info_.image_bytes[group]; }

  [[nodiscard]] Status try_export(uint32_t group, const std::vector<int32_t>& blocks,
                                  Bytes& images) const {
    return call([&](bp_error* error) {
      return table_.export_blocks(session_.executable(), group, blocks.data(), size_of(blocks),
                                  images.data(), images.size(), error);
    });
  }
  [[nodiscard]] Status try_import(uint32_t group, const std::vector<int32_t>& blocks,
                                  const Bytes& images) const {
    return call([&](bp_error* error) {
      return table_.import_blocks(session_.executable(), group, blocks.data(), size_of(blocks),
                                  images.data(), images.size(), error);
    });
  }
  [[nodiscard]] Bytes export_blocks(uint32_t group, const std::vector<int32_t>& blocks) const {
    Bytes images(blocks.size() * image_bytes(group), 0xa5);
    const Status status = try_export(group, blocks, images);
    if (!status.ok()) throw Failure("export_blocks: " + status.message());
    return images;
  }
  void import_blocks(uint32_t group, const std::vector<int32_t>& blocks,
                     const Bytes& images) const {
    const Status status = try_import(group, blocks, images);
    if (!status.ok()) throw Failure("import_blocks: " + status.message());
  }

 private:
  static bp_kv_transfer find(BackendSession& session) {
    const auto get = session.table().get_extension;
    const void* found = get == nullptr ? nullptr : get(session.backend(), BP_KV_TRANSFER_ID);
    if (found == nullptr) throw Skip("the backend does not offer " BP_KV_TRANSFER_ID);
    const auto table = copy_growable(static_cast<const bp_kv_transfer*>(found));
    require(table.prepare != nullptr && table.export_blocks != nullptr &&
                table.import_blocks != nullptr,
            "a required function of bp_kv_transfer is missing");
    return table;
  }
  static uint32_t size_of(const std::vector<int32_t>& blocks) {
    return static_cast<uint32_t>(blocks.size());
  }
  template <class F>
  static Status call(F&& f) {
    bp_error error{};
    return from_c(f(&error), error);
  }

  BackendSession& session_;
  bp_kv_transfer table_;
  bp_kv_image_info info_;
};

}  // namespace bp::conformance
