// The host program around a candidate on an NPU: reads a launch description, calls kope_entry, reports what each case did.
// Usage: candidate LAUNCH_FILE ANSWER_FILE. Values are not judged here: outputs go to files, the driver compares.
//
// Parameters of the launch description: vector_core_count; and when timing, warm_up and repeats (calls of each case),
// gap_us (pause around each call, so that a profiler's rows can be told apart by when they ran) and checked_call: before
// this call the outputs are filled with the sentinel again, after it they are stored, so that a timed call is compared.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device.h"
#include "launch.h"

namespace {

constexpr int exit_usage = 64;
constexpr int exit_no_device = 65;
constexpr int exit_device_error = 66; // after a kernel failed the device is in no state to go on

using Bytes = std::vector<unsigned char>;

struct Finding {
    std::string kind;
    std::string message;
    std::string remedy;
};

// What one case did. calls: start and end of each, microseconds of Unix time.
struct Report {
    int return_code = 0;
    harness::DeviceError error;
    std::vector<Finding> findings;
    std::vector<std::pair<int64_t, int64_t>> calls;
};

void append_string(std::string& out, const std::string& text)
{
    out += '"';
    for (unsigned char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        if (c < 0x20) {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", c);
            out += code;
        } else {
            out += static_cast<char>(c);
        }
    }
    out += '"';
}

// Writes one line of JSON per event. Every line carries the nonce: what the candidate prints is no answer.
class Answers {
public:
    Answers(const std::string& path, std::string nonce) : file_(path, std::ios::binary | std::ios::app), nonce_(std::move(nonce)) {}

    void begin(int64_t number) { write(start("begin", number) + "}"); }

    void no_device(const harness::DeviceError& error)
    {
        std::string out = start("no-device", -1);
        append_error(out, error);
        write(out + "}");
    }

    void end(int64_t number, const Report& report)
    {
        std::string out = start("end", number) + ",\"return_code\":" + std::to_string(report.return_code);
        append_error(out, report.error);
        out += ",\"findings\":[";
        for (size_t k = 0; k < report.findings.size(); ++k) {
            out += k ? ",{\"kind\":" : "{\"kind\":";
            append_string(out, report.findings[k].kind);
            out += ",\"message\":";
            append_string(out, report.findings[k].message);
            out += ",\"remedy\":";
            append_string(out, report.findings[k].remedy);
            out += "}";
        }
        out += "],\"calls\":[";
        for (size_t k = 0; k < report.calls.size(); ++k) {
            out += (k ? ",[" : "[") + std::to_string(report.calls[k].first) + "," + std::to_string(report.calls[k].second) + "]";
        }
        write(out + "]}");
    }

private:
    std::string start(const char* event, int64_t number) const
    {
        return "{\"nonce\":\"" + nonce_ + "\",\"event\":\"" + event + "\",\"case\":" + std::to_string(number);
    }

    static void append_error(std::string& out, const harness::DeviceError& error)
    {
        out += ",\"code\":" + std::to_string(error.code) + ",\"call\":";
        append_string(out, error.call);
        out += ",\"text\":";
        append_string(out, error.text);
    }

    void write(const std::string& line) { file_ << line << std::endl; }

    std::ofstream file_;
    std::string nonce_;
};

int64_t now_us()
{
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

// Content outputs and workspace have before the call: NaN for floating point, an unlikely value for integers.
unsigned char sentinel(KopeDtype dtype) { return dtype <= KOPE_BFLOAT16 ? 0xFF : 0x80; }

double parameter(const harness::LaunchPlan& plan, const char* name, double fallback)
{
    for (const auto& [key, value] : plan.parameters) {
        if (key == name) {
            return value;
        }
    }
    return fallback;
}

bool read_file(const std::string& path, size_t bytes, Bytes& content)
{
    std::ifstream file(path, std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    return static_cast<bool>(file) && content.size() == bytes;
}

bool write_file(const std::string& path, const Bytes& content)
{
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    file.flush();
    return static_cast<bool>(file);
}

// One case: its memory on the device, the call's arguments, and what came of it.
class Case {
public:
    Case(const harness::CasePlan& plan, const harness::LaunchPlan& launch, const harness::Device& device)
        : plan_(plan), launch_(launch), device_(device)
    {
    }

    // Returns false and says why when files cannot be used. Throws DeviceError when the device has no memory.
    bool prepare(std::string& problem);
    // Returns false when the device is in no state to run another case; `problem` says what was wrong with files.
    bool run(Report& report, std::string& problem);

private:
    KopeCall make_call();
    void fill_outputs();
    bool store_outputs(std::string& problem) const;
    bool call_once(const KopeCall& call, Report& report);
    void check(Report& report) const;
    void check_unwritten(size_t k, Report& report) const;

    const harness::CasePlan& plan_;
    const harness::LaunchPlan& launch_;
    const harness::Device& device_;
    std::vector<std::unique_ptr<harness::Buffer>> inputs_;
    std::vector<std::unique_ptr<harness::Buffer>> outputs_;
    std::unique_ptr<harness::Buffer> workspace_;
    std::vector<Bytes> given_;
    std::vector<KopeTensor> input_tensors_;
    std::vector<KopeTensor> output_tensors_;
    std::vector<KopeAttr> attrs_;
};

KopeTensor tensor_of(const harness::TensorPlan& plan, void* device)
{
    return {device, plan.shape.data(), static_cast<int32_t>(plan.shape.size()), plan.dtype, plan.numel()};
}

bool Case::prepare(std::string& problem)
{
    for (const harness::TensorPlan& tensor : plan_.inputs) {
        Bytes content;
        if (!tensor.omitted && !read_file(tensor.path, tensor.bytes(), content)) {
            problem = "cannot read input " + tensor.path;
            return false;
        }
        inputs_.push_back(tensor.omitted ? nullptr : std::make_unique<harness::Buffer>(tensor.bytes()));
        if (!tensor.omitted) {
            inputs_.back()->write(content);
        }
        given_.push_back(std::move(content));
        input_tensors_.push_back(
            tensor.omitted ? KopeTensor{nullptr, nullptr, 0, tensor.dtype, 0} : tensor_of(tensor, inputs_.back()->data()));
    }
    for (const harness::TensorPlan& tensor : plan_.outputs) {
        outputs_.push_back(std::make_unique<harness::Buffer>(tensor.bytes()));
        output_tensors_.push_back(tensor_of(tensor, outputs_.back()->data()));
    }
    fill_outputs();
    for (const harness::AttrPlan& attr : plan_.attrs) {
        attrs_.push_back({attr.name.c_str(), attr.kind, attr.i, attr.f, attr.s.c_str(), attr.ints.data(), attr.floats.data(),
            static_cast<int32_t>(attr.ints.size())});
    }
    return true;
}

void Case::fill_outputs()
{
    for (size_t k = 0; k < outputs_.size(); ++k) {
        outputs_[k]->fill(sentinel(plan_.outputs[k].dtype));
    }
}

KopeCall Case::make_call()
{
    KopeCall call{};
    call.inputs = input_tensors_.data();
    call.input_count = static_cast<int32_t>(input_tensors_.size());
    call.outputs = output_tensors_.data();
    call.output_count = static_cast<int32_t>(output_tensors_.size());
    call.attrs = attrs_.data();
    call.attr_count = static_cast<int32_t>(attrs_.size());
    call.vector_core_count = static_cast<uint32_t>(parameter(launch_, "vector_core_count", 1));
    call.ub_bytes = launch_.ub_bytes;
    call.stream = device_.stream();
    call.workspace_bytes = kope_workspace_bytes == nullptr ? 0 : kope_workspace_bytes(&call);
    if (call.workspace_bytes != 0) {
        workspace_ = std::make_unique<harness::Buffer>(call.workspace_bytes);
        call.workspace = workspace_->data();
    }
    return call;
}

bool Case::call_once(const KopeCall& call, Report& report)
{
    const auto gap = std::chrono::microseconds(static_cast<int64_t>(parameter(launch_, "gap_us", 0)));
    std::this_thread::sleep_for(gap);
    const int64_t started = now_us();
    report.return_code = kope_entry(&call);
    std::fflush(stdout);
    if (report.return_code != 0) {
        report.findings.push_back({"entry-refused", "kope_entry returned " + std::to_string(report.return_code),
            "handle this case's dtypes, shapes and attributes; 0 means launched"});
        harness::DeviceError unused;
        return device_.synchronize(unused);
    }
    const bool well = device_.synchronize(report.error);
    report.calls.emplace_back(started, now_us());
    return well;
}

bool Case::run(Report& report, std::string& problem)
{
    const KopeCall call = make_call();
    const int calls = launch_.verify ? 1 : static_cast<int>(parameter(launch_, "warm_up", 0) + parameter(launch_, "repeats", 1));
    const int checked = launch_.verify ? 0 : static_cast<int>(parameter(launch_, "checked_call", -1));
    for (int k = 0; k < calls && report.return_code == 0; ++k) {
        if (k == checked) {
            fill_outputs();
        }
        if (!call_once(call, report)) {
            return false;
        }
        if (k == checked && report.return_code == 0 && !store_outputs(problem)) {
            return true;
        }
    }
    if (report.return_code == 0) {
        check(report);
    }
    return true;
}

void Case::check(Report& report) const
{
    const auto guarded = [&report](const harness::Buffer& buffer, const std::string& name) {
        size_t first = 0;
        if (const size_t damage = buffer.guard_damage(first)) {
            report.findings.push_back({"gm-oob",
                std::to_string(damage) + " bytes behind " + name + " were overwritten, the first " + std::to_string(first) +
                    " bytes past its end",
                "check offsets and counts at the end of each core's share; look at the tail"});
        }
    };
    for (size_t k = 0; k < inputs_.size(); ++k) {
        if (inputs_[k] == nullptr) {
            continue;
        }
        guarded(*inputs_[k], "input " + plan_.inputs[k].name);
        if (launch_.verify && inputs_[k]->read() != given_[k]) {
            report.findings.push_back({"input-written", "the kernel changed input " + plan_.inputs[k].name, "write to outputs and workspace only"});
        }
    }
    for (size_t k = 0; k < outputs_.size(); ++k) {
        guarded(*outputs_[k], "output " + plan_.outputs[k].name);
        if (launch_.verify) {
            check_unwritten(k, report);
        }
    }
    if (workspace_ != nullptr) {
        guarded(*workspace_, "the workspace");
    }
}

// Floating point only: an integer output may well hold the sentinel's value.
void Case::check_unwritten(size_t k, Report& report) const
{
    const harness::TensorPlan& plan = plan_.outputs[k];
    if (plan.dtype > KOPE_BFLOAT16) {
        return;
    }
    const Bytes content = outputs_[k]->read();
    const size_t size = kope_dtype_bytes(plan.dtype);
    const Bytes untouched(size, sentinel(plan.dtype));
    int64_t count = 0;
    int64_t first = 0;
    for (int64_t element = plan.numel(); element-- > 0;) {
        if (std::memcmp(content.data() + static_cast<size_t>(element) * size, untouched.data(), size) == 0) {
            ++count;
            first = element;
        }
    }
    if (count != 0) {
        report.findings.push_back({"unwritten-output",
            "output " + plan.name + ": " + std::to_string(count) + " of " + std::to_string(plan.numel()) +
                " elements never written, the first has flat index " + std::to_string(first),
            "look at the tail of each core's share and at counts rounded down to 32 bytes; DataCopyPad copies any length"});
    }
}

bool Case::store_outputs(std::string& problem) const
{
    for (size_t k = 0; k < outputs_.size(); ++k) {
        if (!write_file(plan_.outputs[k].path, outputs_[k]->read())) {
            problem = "cannot write output " + plan_.outputs[k].path;
            return false;
        }
    }
    return true;
}

int fail(const std::string& problem)
{
    std::fprintf(stderr, "kope-harness: %s\n", problem.c_str());
    return exit_usage;
}

int run_all(const harness::LaunchPlan& plan, const harness::Device& device, Answers& answers)
{
    for (const harness::CasePlan& one : plan.cases) {
        std::string problem;
        Case work(one, plan, device);
        if (!work.prepare(problem)) {
            return fail(problem);
        }
        answers.begin(one.number);
        Report report;
        const bool well = work.run(report, problem);
        if (!problem.empty()) {
            return fail(problem);
        }
        answers.end(one.number, report);
        if (!well) {
            return exit_device_error;
        }
    }
    return 0;
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 3) {
        return fail("usage: candidate LAUNCH_FILE ANSWER_FILE");
    }
    harness::LaunchPlan plan;
    std::string problem;
    if (!harness::read_launch(argv[1], plan, problem)) {
        return fail(problem);
    }
    Answers answers(argv[2], plan.nonce);
    try {
        harness::Device device;
        return run_all(plan, device, answers);
    } catch (const harness::DeviceError& error) {
        answers.no_device(error);
        std::fprintf(stderr, "kope-harness: %s failed: %d\n%s\n", error.call.c_str(), error.code, error.text.c_str());
        return exit_no_device;
    }
}
