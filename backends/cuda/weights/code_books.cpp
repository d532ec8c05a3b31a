#include "backends/cuda/weights/code_books.hpp"

#include <span>

#include "backplane/reference/codebooks.hpp"

namespace bp::cuda {

namespace {

std::span<const std::byte> table_of(bp_dtype dtype) {
  switch (dtype) {
    case BP_DTYPE_IQ2_XXS:
      return std::as_bytes(std::span(reference::kIq2XxsGrid));
    case BP_DTYPE_IQ2_XS:
      return std::as_bytes(std::span(reference::kIq2XsGrid));
    case BP_DTYPE_IQ2_S:
      return std::as_bytes(std::span(reference::kIq2SGrid));
    case BP_DTYPE_IQ3_XXS:
      return std::as_bytes(std::span(reference::kIq3XxsGrid));
    case BP_DTYPE_IQ3_S:
      return std::as_bytes(std::span(reference::kIq3SGrid));
    case BP_DTYPE_IQ1_S:
    case BP_DTYPE_IQ1_M:
      return std::as_bytes(std::span(reference::kIq1Grid));
    default:
      return {};
  }
}

}  // namespace

Status CodeBooks::load(Device& device, bp_dtype dtype) {
  const auto table = table_of(dtype);
  if (table.empty() || books_.count(dtype) > 0) return {};
  BP_ASSIGN(Memory book, device.allocate(MemoryKind::kDevice, table.size(), "a code book"));
  BP_ASSIGN(const std::unique_ptr<Stream> stream, device.make_stream());
  BP_TRY(stream->copy_to_device(book.data(), table.data(), table.size()));
  BP_TRY(stream->synchronize());
  books_[dtype] = std::move(book);
  return {};
}

const void* CodeBooks::find(bp_dtype dtype) const {
  const auto book = books_.find(dtype);
  return book == books_.end() ? nullptr : book->second.data();
}

}  // namespace bp::cuda
