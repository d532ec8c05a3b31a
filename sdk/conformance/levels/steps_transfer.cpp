// "bp.kv-transfer/1": what leaves for host memory comes back bit for bit, in the layout that the
// header describes, and nothing else is taken.

#include <algorithm>
#include <cstring>
#include <functional>

#include "backplane/dtype.hpp"
#include "sdk/conformance/levels/steps.hpp"
#include "sdk/conformance/support/recurrent_session.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "sdk/conformance/support/step_fixture.hpp"

namespace bp::conformance {

namespace {

using Bytes = KvTransferClient::Bytes;

// Of each group, a sequence's blocks.
std::vector<Bytes> export_all(TransformerSession& session, const Blocks& blocks) {
  std::vector<Bytes> images;
  for (uint32_t g = 0; g < session.n_groups(); ++g) {
    images.push_back(session.transfer().export_blocks(g, session.blocks_of(g, blocks)));
  }
  return images;
}
void import_all(TransformerSession& session, const Blocks& blocks,
                const std::vector<Bytes>& images) {
  for (uint32_t g = 0; g < session.n_groups(); ++g) {
    session.transfer().import_blocks(g, session.blocks_of(g, blocks), images[g]);
  }
}

void require_same(const std::string& what, const Floats& expected, const Floats& found) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&expected[i], &found[i], sizeof(float)) == 0) continue;
    throw Failure(what + ": logit " + std::to_string(i) + " is " + std::to_string(found[i]) +
                  ", expected " + std::to_string(expected[i]) + " to the last bit");
  }
}

struct Prompt {
  Tokens tokens;
  uint32_t last;  // its position is decoded
  Blocks blocks;
};
// All but the last token computed.
Prompt computed_prompt(StepFixture& f, TransformerSession& session, const std::string& name) {
  Prompt p;
  p.tokens = f.tokens(name, 2 * f.block_size() + 6);
  p.last = static_cast<uint32_t>(p.tokens.size() - 1);
  p.blocks = f.blocks(3, p.tokens.size(), 5);
  session.logits(slice(p.tokens, 0, p.last), 0, p.blocks);
  return p;
}
Floats decode(TransformerSession& session, const Prompt& p, const Blocks& blocks) {
  return session.logits({p.tokens[p.last]}, p.last, blocks);
}

void goes_on_in_other_blocks(StepFixture& f) {
  TransformerSession& session = f.session();
  const Prompt p = computed_prompt(f, session, "moved");
  const auto images = export_all(session, p.blocks);
  const Floats expected = decode(session, p, p.blocks);
  const Blocks others = {40, 21, 60};
  // What stands there before must go.
  session.logits(Tokens(3 * f.block_size(), SmallTransformer::kNanToken), 0, others);
  import_all(session, others, images);
  require_same("a decode in imported blocks", expected, decode(session, p, others));
  require_same("a decode in the blocks that were exported", expected, decode(session, p, p.blocks));
}

void exports_only_read(StepFixture& f) {
  TransformerSession& session = f.session();
  const Prompt p = computed_prompt(f, session, "read");
  const Floats expected = decode(session, p, p.blocks);
  const auto first = export_all(session, p.blocks);
  require_same("a decode after an export", expected, decode(session, p, p.blocks));
  for (uint32_t g = 0; g < session.n_groups(); ++g) {
    const Bytes again = session.transfer().export_blocks(g, session.blocks_of(g, p.blocks));
    require(again == first[g], "two exports of the same blocks differ");
  }
}

bp_kv_image_header header_of(const Bytes& images) {
  bp_kv_image_header header;
  require(images.size() >= sizeof header, "an image is smaller than its header");
  std::memcpy(&header, images.data(), sizeof header);
  return header;
}

// Between a backend and the reference, either way; keys that the backend turns are its own.
void images_are_canonical(StepFixture& f) {
  const Prompt p = computed_prompt(f, f.session(), "canonical");
  computed_prompt(f, f.reference(), "canonical");
  const auto of_backend = export_all(f.session(), p.blocks);
  const auto of_reference = export_all(f.reference(), p.blocks);
  bool is_plain = true;
  for (uint32_t g = 0; g < f.session().n_groups(); ++g) {
    const bp_kv_image_header found = header_of(of_backend[g]);
    bp_kv_image_header expected = header_of(of_reference[g]);
    is_plain = is_plain && found.k_basis == BP_KV_BASIS_PLAIN;
    expected.k_basis = found.k_basis;
    require(of_backend[g].size() == of_reference[g].size() &&
                std::memcmp(&found, &expected, sizeof found) == 0,
            "the header of an image is not that of the reference's for the same cache");
  }
  if (!is_plain) return;
  const Blocks others = {50, 31, 70};
  import_all(f.reference(), others, of_backend);
  f.expect("the reference's decode from the backend's images", p.tokens, p.last,
           decode(f.reference(), p, others));
  import_all(f.session(), others, of_reference);
  f.expect("a decode from the reference's images", p.tokens, p.last,
           decode(f.session(), p, others));
}

void for_each_kv_type(Subject& subject, void (*test)(StepFixture&)) {
  uint32_t n_run = 0;
  std::string refused;
  for (const bp_dtype type : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F8_E4M3,
                              BP_DTYPE_Q8_0, BP_DTYPE_Q4_0}) {
    TransformerSession::Options options;
    options.shape = {BP_DTYPE_F32, 0, subject.options().seed};
    options.kv = type;
    options.transfers = true;
    try {
      StepFixture f(subject, options);
      test(f);
      ++n_run;
    } catch (const Skip& skip) {
      refused = skip.what();
    } catch (const Failure& failure) {
      throw Failure("with a KV cache of " + std::string(dtype_name(type)) + ": " + failure.what());
    }
  }
  if (n_run == 0) throw Skip(refused);
}

void refuse(const Status& status, const std::string& what) {
  require(status.code() == Code::kInvalidArgument, what + " is answered with " +
                                                       (status.ok() ? "BP_OK" : status.message()) +
                                                       ", expected BP_INVALID_ARGUMENT");
  require(!status.message().empty(), what + " is refused without a sentence");
}

void wrong_calls_are_refused(StepFixture& f) {
  TransformerSession& session = f.session();
  const KvTransferClient& transfer = session.transfer();
  const Prompt p = computed_prompt(f, session, "refused");
  const Floats expected = decode(session, p, p.blocks);
  Bytes images = transfer.export_blocks(0, {3, 8});
  constexpr auto kEnd = static_cast<int32_t>(TransformerSession::kBlocks);
  for (const int32_t id : {0, -1, kEnd}) {
    refuse(transfer.try_export(0, {3, id}, images), "an export of block " + std::to_string(id));
    refuse(transfer.try_import(0, {3, id}, images), "an import of block " + std::to_string(id));
  }
  refuse(transfer.try_export(9, {3, 8}, images), "an export from group 9");
  refuse(transfer.try_import(9, {3, 8}, images), "an import into group 9");
  refuse(transfer.try_import(0, {8, 8}, images), "a block that stands twice in an import");
  images.push_back(0);
  refuse(transfer.try_export(0, {3, 8}, images), "an export into a byte too many");
  refuse(transfer.try_import(0, {3, 8}, images), "an import of a byte too many");
  images.resize(images.size() - 2);
  refuse(transfer.try_export(0, {3, 8}, images), "an export into a byte too few");
  refuse(transfer.try_import(0, {3, 8}, images), "an import of a byte too few");
  require_same("a decode after refused transfers", expected, decode(session, p, p.blocks));
}

// The second of two images says something else of itself.
void foreign_images_are_refused(StepFixture& f) {
  TransformerSession& session = f.session();
  const KvTransferClient& transfer = session.transfer();
  const Prompt p = computed_prompt(f, session, "foreign");
  const Floats expected = decode(session, p, p.blocks);
  const Bytes images(2 * transfer.image_bytes(0), 0);
  const Bytes mine = transfer.export_blocks(0, {3, 8});
  struct Field {
    const char* name;
    size_t offset;
  };
  const Field fields[] = {{"magic", offsetof(bp_kv_image_header, magic)},
                          {"version", offsetof(bp_kv_image_header, version)},
                          {"image_bytes", offsetof(bp_kv_image_header, image_bytes)},
                          {"group", offsetof(bp_kv_image_header, group)},
                          {"n_slots", offsetof(bp_kv_image_header, n_slots)},
                          {"block_size", offsetof(bp_kv_image_header, block_size)},
                          {"k_dtype", offsetof(bp_kv_image_header, k_dtype)},
                          {"v_dtype", offsetof(bp_kv_image_header, v_dtype)},
                          {"k_basis", offsetof(bp_kv_image_header, k_basis)},
                          {"shape", offsetof(bp_kv_image_header, shape)}};
  refuse(transfer.try_import(0, {3, 8}, images), "zeros in place of images");
  for (const Field& field : fields) {
    Bytes foreign = mine;
    foreign[transfer.image_bytes(0) + field.offset] ^= 0x15;
    std::fill_n(foreign.begin() + 64, 64, uint8_t{0x3c});  // of the first, which must not arrive
    refuse(transfer.try_import(0, {3, 8}, foreign),
           "an image with another " + std::string(field.name));
  }
  require_same("a decode after refused images", expected, decode(session, p, p.blocks));
}

void states_move(Subject& subject) {
  const bp_params params = subject.params();
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  RecurrentSession session(factory, &params, 0, true), reference(kReference, nullptr, 0, true);
  const std::vector<int32_t> prompt = {4, 8, 15, 16, 23, 7}, other = {39, 38, 37};
  session.one(prompt, 0, 0, 5);
  reference.one(prompt, 0, 0, 5);
  const Bytes image = session.transfer().export_blocks(0, {5});
  session.one(other, 0, 0, 9);
  session.transfer().import_blocks(0, {9}, image);
  const Floats expected = session.one({11}, 6, 5, 2);
  require_same("a token after an imported state", expected, session.one({11}, 6, 9, 3));
  reference.transfer().import_blocks(0, {7}, image);
  constexpr ErrorBound kBound{1e-5, 1e-4};
  const std::string wrong =
      compare(expected, reference.one({11}, 6, 7, 8), kBound, RecurrentSession::kOut);
  if (!wrong.empty()) throw Failure("the reference's token after the backend's state: " + wrong);
  refuse(session.transfer().try_export(0, {0}, const_cast<Bytes&>(image)), "an export of entry 0");
}

}  // namespace

void add_transfer_steps_tests(Tests& tests) {
  const auto both_layouts = [](void (*run)(StepFixture&)) {
    return [run](Subject& subject) { for_transfers(subject, run); };
  };
  const auto each_type = [](void (*run)(StepFixture&)) {
    return [run](Subject& subject) { for_each_kv_type(subject, run); };
  };
  const Test listed[] = {
      {"steps-transfer-blocks", "steps",
       "a sequence goes on bit for bit in blocks that its images are imported into",
       both_layouts(goes_on_in_other_blocks)},
      {"steps-transfer-types", "steps", "likewise for each type of the KV cache",
       each_type(goes_on_in_other_blocks)},
      {"steps-transfer-reads", "steps", "an export changes no block",
       both_layouts(exports_only_read)},
      {"steps-transfer-canonical", "steps",
       "the reference reads a backend's images, and the reverse",
       both_layouts(images_are_canonical)},
      {"steps-transfer-refused", "steps", "wrong blocks, groups and sizes are refused",
       both_layouts(wrong_calls_are_refused)},
      {"steps-transfer-foreign", "steps", "images of another cache are refused",
       both_layouts(foreign_images_are_refused)},
      {"steps-transfer-states", "steps", "a sequence goes on bit for bit in an imported state",
       states_move},
  };
  tests.insert(tests.end(), std::begin(listed), std::end(listed));
}

}  // namespace bp::conformance
