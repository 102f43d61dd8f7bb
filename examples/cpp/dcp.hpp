/* dcp.hpp - dcp.h for C++17: the state of a program as a list of its own objects, handles that close themselves, errors
 * as exceptions or as values. Beside dcp.h, or with -I; the implementation is in a file of the program as always.
 *
 *     std::vector<float> weights(1000);
 *     std::string notes = "first run";
 *     dcp::state state;                        // refers to the objects, which outlive it and stay where they are
 *     state.add("weights", weights);
 *     state.add("notes", notes);
 *     state.save("run/step_1");                // throws dcp::error if it fails
 *     state.load("run/step_1");                // vectors and strings get the sizes that were saved
 *
 * `add` takes numbers, enums, std::complex; std::vector and std::string, which a load resizes; std::array, std::span
 * and whatever else has data() and size(), whose size must be the stored one. It returns the dcp_tensor, for what else
 * dcp.h can say: state.add("cache", cache).optional = 1; dcp_piece(&state.add("rows", rows), whole, where), which is
 * not resized. Each call also takes a dcp_error& last and returns a dcp_status instead, which is all there is with
 * -fno-exceptions. No memory is std::bad_alloc in both. After a failed load the objects are unspecified. */
#ifndef DCP_HPP
#define DCP_HPP
#include "dcp.h"
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace dcp {

/* ---- types --------------------------------------------------------------------------------------------------- */
template <class T> constexpr dcp_dtype find_dtype() {
    constexpr dcp_dtype integers[2][4] = {{DCP_UINT8, DCP_UINT16, DCP_UINT32, DCP_UINT64},
                                          {DCP_INT8, DCP_INT16, DCP_INT32, DCP_INT64}};
    if constexpr (std::is_enum_v<T> && !std::is_same_v<T, std::byte>) return find_dtype<std::underlying_type_t<T>>();
    else if constexpr (std::is_same_v<T, bool>) return DCP_BOOL;
    else if constexpr (std::is_same_v<T, float>) return DCP_FP32;
    else if constexpr (std::is_same_v<T, double>) return DCP_FP64;
    else if constexpr (std::is_same_v<T, std::complex<float>>) return DCP_COMPLEX64;
    else if constexpr (std::is_same_v<T, std::complex<double>>) return DCP_COMPLEX128;
    else if constexpr (std::is_same_v<T, char> || std::is_same_v<T, std::byte>) return DCP_UINT8;
    else if constexpr (std::is_integral_v<T> && sizeof(T) <= 8)
        return integers[std::is_signed_v<T>][(sizeof(T) > 1) + (sizeof(T) > 2) + (sizeof(T) > 4)];
    else return DCP_OPAQUE;
}
/* For a type of your own: template <> inline constexpr dcp_dtype dcp::dtype_of<half> = DCP_FP16; DCP_OPAQUE: none. */
template <class T> inline constexpr dcp_dtype dtype_of = find_dtype<std::remove_cv_t<T>>();

/* ---- errors ------------------------------------------------------------------------------------------------------ */
struct error : std::exception {
    explicit error(const dcp_error &what_happened) noexcept : details(what_happened) {}
    const char *what() const noexcept override { return details.message; }
    dcp_error details;
};
template <class Caller> void check([[maybe_unused]] dcp_status status, [[maybe_unused]] const dcp_error &err) {
#ifdef __cpp_exceptions
    if (status != DCP_OK) throw error(err);
#else
    static_assert(sizeof(Caller) == 0, "without exceptions: give a dcp_error& last");
#endif
}
inline dcp_status refuse(dcp_error &err, const std::string &why) {
    err = dcp_error{};
    std::snprintf(err.message, sizeof err.message, "%s", why.c_str());
    return err.status = DCP_E_INVALID;
}

/* ---- handles: closed when they go out of scope ------------------------------------------------------------------- */
struct closer {
    void operator()(dcp_checkpoint *c) const noexcept { dcp_close(c); }
    void operator()(dcp_coordinator *c) const noexcept { dcp_coordinator_close(c); }
    void operator()(dcp_storage *s) const noexcept { dcp_storage_close(s); }
    void operator()(dcp_device *d) const noexcept { dcp_device_close(d); }
    void operator()(char *text) const noexcept { dcp_free(text); }
};
using checkpoint = std::unique_ptr<dcp_checkpoint, closer>;
using coordinator = std::unique_ptr<dcp_coordinator, closer>;
using storage = std::unique_ptr<dcp_storage, closer>;
using device = std::unique_ptr<dcp_device, closer>;

/* Saves in the background: state.save(desc, err, saver.get()), dcp_save_poll(saver.get(), &err), ... A failure that
 * none of them has returned is close's; a saver that goes out of scope can only print it. */
class saver {
public:
    explicit saver(const dcp_saver_desc *desc = nullptr) { (void)dcp_saver_open(desc, &handle, &err); }
    saver(const saver &) = delete;
    saver &operator=(const saver &) = delete;
    ~saver() {
        if (dcp_saver_close(handle, &err) != DCP_OK) std::fprintf(stderr, "dcp: a save failed: %s\n", err.message);
    }
    dcp_saver *get() const noexcept { return handle; }          /* nullptr: no memory */
    dcp_status close(dcp_error &e) { return dcp_saver_close(std::exchange(handle, nullptr), &e); }
private:
    dcp_saver *handle = nullptr;
    dcp_error err;
};

/* What opens something: dcp::get(handle, err, dcp_open, &desc) or dcp::get<dcp::checkpoint>(dcp_open, &desc) */
template <class Handle, class Open, class... Arguments>
dcp_status get(Handle &out, dcp_error &err, Open open, Arguments... arguments) {
    typename Handle::pointer opened = nullptr;
    const dcp_status status = open(arguments..., &opened, &err);
    return out.reset(opened), status;
}
template <class Handle, class Open, class... Arguments> Handle get(Open open, Arguments... arguments) {
    Handle out;
    dcp_error err;
    check<Handle>(get(out, err, open, arguments...), err);
    return out;
}

/* ---- the state of a program -------------------------------------------------------------------------------------- */
class state {
public:
    template <class T> dcp_tensor &add(std::string name, T &&object) {   /* of const ones a save only */
        using plain = std::remove_cv_t<std::remove_reference_t<T>>;
        if constexpr (dtype_of<plain> != DCP_OPAQUE) {
            static_assert(std::is_lvalue_reference_v<T>, "the object must outlive the state");
            return put(std::move(name), 0, 1, &object);
        } else {
            dcp_tensor &tensor = put(std::move(name), 1, object.size(), object.data());
            if constexpr (is_resizable<T>::value) {
                static_assert(std::is_lvalue_reference_v<T>, "the object must outlive the state");
                entries.back().object = &object, entries.back().fit = fit<plain>;
            }
            return tensor;
        }
    }
    /* With more dimensions: the elements in row-major order; a load sets the shape, too. */
    template <class T> dcp_tensor &add(std::string name, std::vector<T> &object, std::vector<std::int64_t> &shape) {
        dcp_tensor &tensor = add(std::move(name), object);
        entries.back().shape = &shape;
        if (shape.size() <= DCP_MAX_DIMS) describe(tensor, shape);
        return tensor;
    }
    /* With a saver in the background: the objects are yours again when it returns. */
    dcp_status save(dcp_save_desc desc, dcp_error &err, dcp_saver *saver = nullptr) {
        return with_tensors(err, {}, [&](dcp_tensor *tensors, std::size_t count) {
            desc.tensors = tensors, desc.tensor_count = count;
            return saver ? dcp_save_begin(saver, &desc, &err) : dcp_save(&desc, &err);
        });
    }
    dcp_status load(const dcp_open_desc &desc, dcp_error &err) {
        checkpoint stored;
        if (dcp_status status = get(stored, err, dcp_open, &desc)) return status;
        std::string wrong;
        for (entry &e : entries) {
            if (e.is_const) wrong = e.name + ": cannot be loaded, it is const";
            else resize(e, dcp_checkpoint_find(stored.get(), e.name.c_str()));
        }
        return with_tensors(err, wrong, [&](dcp_tensor *tensors, std::size_t count) {
            const dcp_status status = dcp_read(stored.get(), tensors, count, &err);
            for (std::size_t i = 0; i < count; i++) entries[i].tensor.status = tensors[i].status;
            return status;
        });
    }
    dcp_status save(const std::string &path, dcp_error &err) { return save(at<dcp_save_desc>(path), err); }
    dcp_status load(const std::string &path, dcp_error &err) { return load(at<dcp_open_desc>(path), err); }
    template <class What> void save(const What &what) { dcp_error err; check<What>(save(what, err), err); }
    template <class What> void load(const What &what) { dcp_error err; check<What>(load(what, err), err); }

private:
    struct entry {
        std::string name;
        dcp_tensor tensor;
        bool is_const;
        void *object;                                               /* what fit resizes; NULL: a size that is fixed */
        void *(*fit)(void *object, std::size_t count, bool resize, std::size_t *size);
        std::vector<std::int64_t> *shape;                           /* what a load sets; NULL: one dimension */
    };
    template <class C, class = void> struct is_resizable : std::false_type {};          /* not if it is const */
    template <class C> struct is_resizable<C, std::void_t<decltype(std::declval<C>().resize(1))>> : std::true_type {};
    template <class C> static void *fit(void *object, std::size_t count, bool resize, std::size_t *size) {
        C &container = *static_cast<C *>(object);
        if (resize) container.resize(count);
        *size = container.size();
        return container.data();
    }
    template <class T> dcp_tensor &put(std::string name, int ndim, std::size_t count, T *data) {
        constexpr dcp_dtype dtype = dtype_of<std::remove_cv_t<T>>;
        static_assert(dtype != DCP_OPAQUE, "no dcp_dtype for these elements: see dcp::dtype_of");
        const std::int64_t shape = static_cast<std::int64_t>(count);
        entries.push_back(entry{std::move(name), dcp_array(nullptr, dtype, data, ndim, &shape), std::is_const_v<T>,
                                nullptr, nullptr, nullptr});
        return entries.back().tensor;
    }
    template <class Desc> static Desc at(const std::string &path) {
        Desc desc = DCP_ZERO;
        return desc.path = path.c_str(), desc;
    }
    static bool is_piece(const dcp_tensor &t) { return t.ndim > 0 && t.global_shape[0] != 0; }
    /* As it is stored; what does not fit together stays, and dcp_read says so. */
    static void resize(entry &e, const dcp_tensor_info *info) {
        if (!info || !e.fit || is_piece(e.tensor) || info->dtype != e.tensor.dtype) return;
        if (!e.shape && info->ndim != 1) return;
        std::size_t count = 1, size = 0;
        for (int i = 0; i < info->ndim; i++) count *= static_cast<std::size_t>(info->shape[i]);
        if (e.shape) e.shape->assign(info->shape, info->shape + info->ndim);
        e.fit(e.object, count, true, &size);
    }
    static void describe(dcp_tensor &t, const std::vector<std::int64_t> &shape) {
        t.ndim = static_cast<int>(shape.size());
        for (std::size_t i = 0; i < DCP_MAX_DIMS; i++) t.shape[i] = i < shape.size() ? shape[i] : 0;
    }
    static dcp_tensor now(entry &e, std::string &wrong) {           /* as the object is now */
        dcp_tensor &t = e.tensor;
        std::size_t size = 0, count = 1;
        t.name = e.name.c_str();
        if (!e.fit) return t;
        t.data = e.fit(e.object, 0, false, &size);
        if (e.shape && e.shape->empty()) e.shape->push_back(static_cast<std::int64_t>(size));
        if (e.shape && e.shape->size() <= DCP_MAX_DIMS) describe(t, *e.shape);
        else if (!is_piece(t)) t.shape[0] = static_cast<std::int64_t>(size);
        for (int i = 0; i < t.ndim; i++) count *= static_cast<std::size_t>(t.shape[i]);
        if (count != size) wrong = e.name + ": its size is not that of its shape";
        return t;
    }
    /* The call is made, and refused, if something is wrong, too: with several ranks the others wait for it. */
    template <class Call> dcp_status with_tensors(dcp_error &err, std::string wrong, Call call) {
        std::vector<dcp_tensor> tensors;
        for (entry &e : entries) tensors.push_back(now(e, wrong));
        if (!wrong.empty()) tensors[0].ndim = -1;
        const dcp_status status = call(tensors.data(), tensors.size());
        return wrong.empty() ? status : refuse(err, wrong);
    }
    std::deque<entry> entries;                                      /* what `add` returns stays where it is */
};

/* The newest valid checkpoint of a directory; DCP_OK and no path: there is none yet. */
inline dcp_status latest(const std::string &directory, std::optional<std::string> &path, dcp_error &err) {
    dcp_latest_desc desc = DCP_ZERO;
    char *found = nullptr;
    desc.directory = directory.c_str();
    const dcp_status status = dcp_latest(&desc, &found, &err);
    const std::unique_ptr<char, closer> owned(found);
    path = found ? std::optional<std::string>(found) : std::nullopt;
    return status == DCP_E_NOT_FOUND ? DCP_OK : status;
}
template <class Text> std::optional<std::string> latest(const Text &directory) {
    std::optional<std::string> path;
    dcp_error err;
    check<Text>(latest(directory, path, err), err);
    return path;
}
} // namespace dcp
#endif
