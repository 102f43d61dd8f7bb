/* languages.cpp - what examples/cpp/dcp.hpp promises, as a program; test_languages.sh builds it as C++17 and C++20, by
 * g++ and clang++, with and without exceptions. Prints what fails; the exit status is the number of failures. */
#include "dcp.hpp"
#include <array>
#include <cstring>
#if __cplusplus >= 202002L
#include <span>
#endif

namespace {
int failures;
void expect(bool holds, int line, const char *what) {
    if (holds) return;
    std::printf("line %d: %s\n", line, what);
    failures++;
}
#define EXPECT(condition) expect((condition), __LINE__, #condition)

struct half { std::uint16_t bits; };
enum class kind : std::int16_t { soft = 3, hard = -7 };
dcp_error err;

template <class T> bool comes_back(const T &value) {
    T back{};
    dcp::state out, in;
    out.add("value", value);                                        /* const: saves */
    in.add("value", back);
    dcp_save_desc desc = DCP_ZERO;
    desc.path = "comes_back", desc.overwrite = 1;
    if (out.save(desc, err) || in.load("comes_back", err)) return std::puts(err.message), false;
    return std::memcmp(&back, &value, sizeof back) == 0;
}
} // namespace
template <> inline constexpr dcp_dtype dcp::dtype_of<half> = DCP_FP16;

namespace {
void types() {
    static_assert(dcp::dtype_of<bool> == DCP_BOOL && dcp::dtype_of<char> == DCP_UINT8);
    static_assert(dcp::dtype_of<signed char> == DCP_INT8 && dcp::dtype_of<std::byte> == DCP_UINT8);
    static_assert(dcp::dtype_of<short> == DCP_INT16 && dcp::dtype_of<unsigned short> == DCP_UINT16);
    static_assert(dcp::dtype_of<int> == DCP_INT32 && dcp::dtype_of<unsigned> == DCP_UINT32);
    static_assert(dcp::dtype_of<long long> == DCP_INT64 && dcp::dtype_of<unsigned long long> == DCP_UINT64);
    static_assert(dcp::dtype_of<long> == (sizeof(long) == 8 ? DCP_INT64 : DCP_INT32));
    static_assert(dcp::dtype_of<float> == DCP_FP32 && dcp::dtype_of<const double> == DCP_FP64);
    static_assert(dcp::dtype_of<std::complex<float>> == DCP_COMPLEX64);
    static_assert(dcp::dtype_of<std::complex<double>> == DCP_COMPLEX128);
    static_assert(dcp::dtype_of<kind> == DCP_INT16 && dcp::dtype_of<half> == DCP_FP16);
    static_assert(dcp::dtype_of<long double> == DCP_OPAQUE && dcp::dtype_of<std::string> == DCP_OPAQUE);
    EXPECT(comes_back(true));
    EXPECT(comes_back(-1.5f));
    EXPECT(comes_back(std::complex<double>(1, -2)));
    EXPECT(comes_back(kind::hard));
    EXPECT(comes_back(half{0x3C00}));
    EXPECT(comes_back(std::uint64_t{1} << 63));
    EXPECT(comes_back(std::array<std::int16_t, 3>{{1, -2, 3}}));
}

void sizes_come_from_the_file() {
    std::vector<float> numbers{1, 2, 3};
    std::string text("with\0zero", 9);
    std::vector<std::byte> nothing;
    std::vector<double> matrix{1, 2, 3, 4, 5, 6};
    std::vector<std::int64_t> shape{2, 3};
    dcp::state state;
    state.add("numbers", numbers), state.add("text", text), state.add("nothing", nothing);
    state.add("matrix", matrix, shape);
    EXPECT(state.save("sizes", err) == DCP_OK);
    numbers.assign(100, 9.f), text.clear(), nothing.resize(5), matrix.clear(), shape.clear();
    EXPECT(state.load("sizes", err) == DCP_OK);
    EXPECT((numbers == std::vector<float>{1, 2, 3}) && text == std::string("with\0zero", 9) && nothing.empty());
    EXPECT((matrix == std::vector<double>{1, 2, 3, 4, 5, 6}) && (shape == std::vector<std::int64_t>{2, 3}));
    shape = {6}, numbers.push_back(4);                              /* another shape, another size: the list follows */
    EXPECT(state.save("sizes_2", err) == DCP_OK && state.load("sizes", err) == DCP_OK);
    EXPECT(shape.size() == 2 && numbers.size() == 3 && state.load("sizes_2", err) == DCP_OK);
    EXPECT(shape.size() == 1 && numbers.size() == 4);
}

void what_does_not_fit_is_refused() {
    std::vector<float> numbers{1, 2, 3};
    std::vector<std::int64_t> shape{2, 2};
    dcp::state wrong_shape;
    wrong_shape.add("numbers", numbers, shape);
    EXPECT(wrong_shape.save("refused", err) == DCP_E_INVALID && std::strstr(err.message, "numbers"));

    dcp::state good;
    good.add("numbers", numbers);
    EXPECT(good.save("numbers", err) == DCP_OK);
    EXPECT(good.save("numbers", err) == DCP_E_EXISTS);
    EXPECT(good.load("not there", err) == DCP_E_NOT_FOUND);

    std::vector<double> other_type;
    std::array<float, 2> other_size{};
    const std::vector<float> constant(3);
    dcp::state a, b, c, d;
    a.add("numbers", other_type);
    EXPECT(a.load("numbers", err) == DCP_E_MISMATCH && std::strstr(err.message, "numbers"));
    b.add("numbers", other_size);
    EXPECT(b.load("numbers", err) == DCP_E_MISMATCH);
    c.add("numbers", constant);
    EXPECT(c.load("numbers", err) == DCP_E_INVALID && std::strstr(err.message, "const"));
    d.add("letters", numbers);
    EXPECT(d.load("numbers", err) == DCP_E_MISMATCH);
    dcp::state optional;
    dcp_tensor &tensor = optional.add("letters", numbers);
    tensor.optional = 1;
    EXPECT(optional.load("numbers", err) == DCP_OK && tensor.status == DCP_E_NOT_FOUND && numbers.size() == 3);
}

void a_piece_keeps_its_size() {
    std::vector<float> all{0, 1, 2, 3, 4, 5}, part(2);
    const std::int64_t whole = 6, where = 3;
    dcp::state out, in;
    out.add("rows", all);
    dcp_piece(&in.add("rows", part), &whole, &where);
    EXPECT(out.save("piece", err) == DCP_OK && in.load("piece", err) == DCP_OK);
    EXPECT((part == std::vector<float>{3, 4}));
}

void in_the_background() {
    std::vector<float> numbers(1000, 1.f);
    dcp::state state;
    state.add("numbers", numbers);
    dcp::saver saver;
    dcp_save_desc desc = DCP_ZERO;
    desc.path = "background";
    EXPECT(saver.get() != nullptr && state.save(desc, err, saver.get()) == DCP_OK);
    numbers.clear();
    EXPECT(saver.close(err) == DCP_OK && saver.get() == nullptr);
    EXPECT(state.load("background", err) == DCP_OK && numbers.size() == 1000 && numbers[999] == 1.f);
}

void handles() {
    dcp_open_desc desc = DCP_ZERO;
    dcp::checkpoint checkpoint;
    std::optional<std::string> newest;
    desc.path = "numbers";
    EXPECT(dcp::get(checkpoint, err, dcp_open, &desc) == DCP_OK && dcp_checkpoint_tensor_count(checkpoint.get()) == 1);
    desc.path = "not there";
    EXPECT(dcp::get(checkpoint, err, dcp_open, &desc) == DCP_E_NOT_FOUND && !checkpoint);
    EXPECT(dcp::latest("no directory", newest, err) == DCP_OK && !newest);
    EXPECT(dcp::latest(".", newest, err) == DCP_OK && newest && newest->find("background") != std::string::npos);
    dcp_storage_options options = DCP_ZERO;
    dcp::storage storage;
    options.provider = "memory";
    EXPECT(dcp::get(storage, err, dcp_storage_open, &options) == DCP_OK && storage);
}

#ifdef __cpp_exceptions
void exceptions() {
    std::vector<float> numbers;
    dcp::state state;
    state.add("numbers", numbers);
    state.load("numbers");
    EXPECT(numbers.size() == 3 && !dcp::latest("no directory"));
    try {
        state.load(std::string("not there"));
        EXPECT(false);
    } catch (const dcp::error &e) {
        EXPECT(e.details.status == DCP_E_NOT_FOUND && std::strlen(e.what()) > 0);
    }
    dcp_open_desc desc = DCP_ZERO;
    desc.path = "numbers";
    EXPECT(dcp_checkpoint_layout(dcp::get<dcp::checkpoint>(dcp_open, &desc).get()) == DCP_LAYOUT_SHARDED);
}
#endif
#if __cplusplus >= 202002L
void spans() {
    float numbers[3] = {1, 2, 3}, back[3] = {};
    dcp::state out, in;
    out.add("span", std::span<const float>(numbers)), in.add("span", std::span<float>(back));
    EXPECT(out.save("span", err) == DCP_OK && in.load("span", err) == DCP_OK && back[2] == 3.f);
}
#endif
} // namespace

int main() {
    types();
    sizes_come_from_the_file();
    what_does_not_fit_is_refused();
    a_piece_keeps_its_size();
    in_the_background();
    handles();
#ifdef __cpp_exceptions
    exceptions();
#endif
#if __cplusplus >= 202002L
    spans();
#endif
    return failures;
}
