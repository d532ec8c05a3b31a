#include "core/plugin/kv_transfer.hpp"

#include "core/plugin/backend.hpp"
#include "core/plugin/call.hpp"

namespace bp::plugin {

KvTransfer::KvTransfer(const bp_kv_transfer& table, const ExecutableHandle& executable,
                       const bp_kv_image_info& info)
    : table_(table), executable_(executable.c()), calls_(&executable.calls()), info_(info) {}

Result<std::optional<KvTransfer>> KvTransfer::prepare(const BackendHandle& backend,
                                                      const ExecutableHandle& executable) {
  const auto* offered = static_cast<const bp_kv_transfer*>(backend.extension(BP_KV_TRANSFER_ID));
  if (offered == nullptr) return std::optional<KvTransfer>();
  const auto table = copy_growable(offered);
  if (table.prepare == nullptr || table.export_blocks == nullptr ||
      table.import_blocks == nullptr) {
    return internal_error("a required function of bp_kv_transfer is missing");
  }
  auto info = make_growable<bp_kv_image_info>();
  BP_TRY(executable.calls()(
      [&](bp_error* error) { return table.prepare(executable.c(), &info, error); }));
  if (info.n_groups > std::size(info.image_bytes)) {
    return internal_error("images of KV blocks have impossible groups");
  }
  return std::optional(KvTransfer(table, executable, info));
}

Status KvTransfer::export_blocks(uint32_t group, std::span<const int32_t> blocks,
                                 std::span<uint8_t> images) const {
  return (*calls_)([&](bp_error* error) {
    return table_.export_blocks(executable_, group, blocks.data(),
                                static_cast<uint32_t>(blocks.size()), images.data(), images.size(),
                                error);
  });
}

Status KvTransfer::import_blocks(uint32_t group, std::span<const int32_t> blocks,
                                 std::span<const uint8_t> images) const {
  return (*calls_)([&](bp_error* error) {
    return table_.import_blocks(executable_, group, blocks.data(),
                                static_cast<uint32_t>(blocks.size()), images.data(), images.size(),
                                error);
  });
}

}  // namespace bp::plugin
