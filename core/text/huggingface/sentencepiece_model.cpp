#include "core/text/huggingface/sentencepiece_model.hpp"

#include <cmath>
#include <cstring>

#include "core/text/huggingface/gguf_unigram.hpp"
#include "core/text/huggingface/pipeline.hpp"

namespace bp::text::huggingface {
namespace {

// The fields of one message of a protocol buffer, one after another.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  uint32_t number = 0;
  uint64_t value = 0;      // of a varint or a fixed number
  std::string_view bytes;  // of a length-delimited field

  // False at the end and on a fault.
  bool next() {
    uint64_t key = 0;
    if (bytes_.empty() || !read_varint(key)) return false;
    number = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        return read_varint(value);
      case 1:
        return read_fixed(8);
      case 2:
        return read_varint(value) && take(value, bytes);
      case 5:
        return read_fixed(4);
      default:
        return fail();
    }
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] float as_float() const {
    const auto bits = static_cast<uint32_t>(value);
    float number_value;
    std::memcpy(&number_value, &bits, sizeof number_value);
    return number_value;
  }

 private:
  bool fail() {
    ok_ = false;
    return false;
  }
  bool read_varint(uint64_t& out) {
    out = 0;
    for (uint32_t shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      out |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return fail();
  }
  bool take(uint64_t n, std::string_view& out) {
    if (n > bytes_.size()) return fail();
    out = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return true;
  }
  bool read_fixed(uint64_t n) {
    std::string_view raw;
    if (!take(n, raw)) return false;
    value = 0;
    std::memcpy(&value, raw.data(), n);
    return true;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

Status invalid(const char* what) {
  return invalid_argument(std::string("tokenizer.model: ") + what);
}

struct Piece {
  std::string text;
  float score = 0;
  uint64_t type = 1;
};

Status read_piece(std::string_view message, Vocabulary& v) {
  Piece piece;
  Fields fields(message);
  while (fields.next()) {
    if (fields.number == 1) piece.text = fields.bytes;
    if (fields.number == 2) piece.score = fields.as_float();
    if (fields.number == 3) piece.type = fields.value;
  }
  // SentencePiece's numbers of types are those of TokenType.
  if (!fields.ok() || piece.type > static_cast<uint64_t>(TokenType::kByte) ||
      !std::isfinite(piece.score)) {
    return invalid("a piece is malformed");
  }
  v.tokens.push_back(std::move(piece.text));
  v.scores.push_back(piece.score);
  v.types.push_back(static_cast<TokenType>(piece.type));
  return {};
}

struct ModelSpec {
  uint64_t model_type = 1;  // 1: unigram, 2: BPE
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escapes_spaces = true;
  bool marks_end_words = false;
  std::string charsmap;
  int64_t unk = 0, bos = 1, eos = 2, pad = -1;
};

bool read_trainer(std::string_view message, ModelSpec& spec) {
  Fields fields(message);
  while (fields.next()) {
    const auto id = static_cast<int64_t>(static_cast<int32_t>(fields.value));
    if (fields.number == 3) spec.model_type = fields.value;
    if (fields.number == 24) spec.marks_end_words = fields.value != 0;
    if (fields.number == 35) spec.byte_fallback = fields.value != 0;
    if (fields.number == 40) spec.unk = id;
    if (fields.number == 41) spec.bos = id;
    if (fields.number == 42) spec.eos = id;
    if (fields.number == 43) spec.pad = id;
  }
  return fields.ok();
}

bool read_normalizer(std::string_view message, ModelSpec& spec) {
  Fields fields(message);
  while (fields.next()) {
    if (fields.number == 2) spec.charsmap = fields.bytes;
    if (fields.number == 3) spec.add_dummy_prefix = fields.value != 0;
    if (fields.number == 4) spec.remove_extra_whitespaces = fields.value != 0;
    if (fields.number == 5) spec.escapes_spaces = fields.value != 0;
  }
  return fields.ok();
}

Status make_unigram(bool byte_fallback, Vocabulary& v) {
  BP_TRY(make_gguf_unigram(v));
  auto pipeline = std::make_shared<Pipeline>(*v.huggingface);
  pipeline->byte_fallback = byte_fallback;
  pipeline->sums_in_float32 = true;
  v.model = "Unigram";
  v.huggingface = std::move(pipeline);
  return {};
}

}  // namespace

Status read_sentencepiece_model(std::string_view bytes, Vocabulary& v) {
  ModelSpec spec;
  bool sound = true;
  Fields fields(bytes);
  while (fields.next()) {
    if (fields.number == 1) BP_TRY(read_piece(fields.bytes, v));
    if (fields.number == 2) sound = sound && read_trainer(fields.bytes, spec);
    if (fields.number == 3) sound = sound && read_normalizer(fields.bytes, spec);
  }
  if (!fields.ok() || !sound) return invalid("no SentencePiece model");
  if (v.tokens.empty()) return invalid("it has no pieces");
  const auto id_of = [&](int64_t id) {
    return id >= 0 && id < v.n_tokens() ? static_cast<int32_t>(id) : kNoToken;
  };
  v.unk = id_of(spec.unk);
  v.bos = id_of(spec.bos);
  v.eos = id_of(spec.eos);
  v.pad = id_of(spec.pad);
  v.add_bos = v.bos != kNoToken;
  v.add_space_prefix = spec.add_dummy_prefix;
  v.remove_extra_whitespaces = spec.remove_extra_whitespaces;
  v.charsmap = std::move(spec.charsmap);
  if (spec.marks_end_words || !spec.escapes_spaces) {
    return unsupported("tokenizer.model: spaces that are written otherwise than before words");
  }
  if (spec.model_type == 1) return make_unigram(spec.byte_fallback, v);
  if (spec.model_type != 2) {
    return unsupported("tokenizer.model: neither a BPE nor a unigram model");
  }
  v.model = "llama";
  return {};
}

}  // namespace bp::text::huggingface
