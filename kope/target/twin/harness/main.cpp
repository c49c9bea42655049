// The program around a candidate: reads a launch description, calls kope_entry once per case, reports what each showed.
// Usage: candidate LAUNCH_FILE ANSWER_FD. Values are not judged here: outputs go to files, the driver compares.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "answer.h"
#include "launch.h"
#include "options.h"

namespace control = kope_twin::control;

namespace {

constexpr int exit_usage = 64;
constexpr int exit_signal = 70; // as the runtime does it

harness::Answers* answers = nullptr;
int64_t current_case = -1;

// A file in memory. Inputs are mapped unwritable; outputs are created and reach the file without a copy.
class Mapping {
public:
    Mapping() = default;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping()
    {
        if (data_ != nullptr) {
            munmap(data_, bytes_);
        }
    }

    bool open_input(const std::string& path, size_t bytes, std::string& problem)
    {
        const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat status {};
        if (file < 0 || fstat(file, &status) != 0) {
            problem = "cannot read input " + path + ": " + std::strerror(errno);
            return false;
        }
        if (static_cast<size_t>(status.st_size) != bytes) {
            problem = "input " + path + " has " + std::to_string(status.st_size) + " bytes, " + std::to_string(bytes) + " expected";
            close(file);
            return false;
        }
        return map(file, bytes, PROT_READ, MAP_PRIVATE, path, problem);
    }

    bool create_output(const std::string& path, size_t bytes, std::string& problem)
    {
        const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
            problem = "cannot create output " + path + ": " + std::strerror(errno);
            return false;
        }
        return map(file, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, path, problem);
    }

    bool allocate(size_t bytes)
    {
        bytes_ = bytes;
        data_ = bytes == 0 ? nullptr : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        data_ = data_ == MAP_FAILED ? nullptr : data_;
        return bytes == 0 || data_ != nullptr;
    }

    void* data() const { return data_; }

private:
    bool map(int file, size_t bytes, int protection, int flags, const std::string& path, std::string& problem)
    {
        bytes_ = bytes;
        if (bytes != 0) {
            data_ = mmap(nullptr, bytes, protection, flags, file, 0);
            if (data_ == MAP_FAILED) {
                data_ = nullptr;
                problem = "cannot map " + path + ": " + std::strerror(errno);
            }
        }
        close(file);
        return bytes == 0 || data_ != nullptr;
    }

    void* data_ = nullptr;
    size_t bytes_ = 0;
};

// Content outputs and workspace have before the call: NaN for floating point, an unlikely value for integers.
void poison(void* data, size_t bytes, KopeDtype dtype)
{
    if (data != nullptr) {
        std::memset(data, dtype <= KOPE_BFLOAT16 ? 0xFF : 0x80, bytes);
    }
}

std::string element(const harness::TensorPlan& plan, size_t byte)
{
    int64_t flat = static_cast<int64_t>(byte / kope_dtype_bytes(plan.dtype));
    std::string index;
    for (size_t axis = plan.shape.size(); axis-- > 0;) {
        const int64_t extent = plan.shape[axis];
        index = std::to_string(flat % extent) + (index.empty() ? "" : ", ") + index;
        flat /= extent;
    }
    return "[" + index + "]";
}

// One case: its memory, the call's arguments, and what the candidate said.
class Case {
public:
    Case(const harness::CasePlan& plan, const harness::LaunchPlan& launch)
        : plan_(plan), options_(harness::options_of(launch)), verify_(launch.verify), ub_bytes_(launch.ub_bytes)
    {
    }

    // Returns false and says why when memory or files cannot be had; that is not the candidate's fault.
    bool prepare(std::string& problem);
    control::CaseResult run(int& return_code);

private:
    bool add_input(const harness::TensorPlan& plan, std::string& problem);
    bool add_output(const harness::TensorPlan& plan, std::string& problem);
    bool add_workspace(KopeCall& call, control::CaseResult& refused);
    KopeCall make_call();
    void check_outputs(control::CaseResult& result) const;

    const harness::CasePlan& plan_;
    control::Options options_;
    bool verify_;
    uint32_t ub_bytes_;
    std::vector<std::unique_ptr<Mapping>> mappings_;
    std::vector<KopeTensor> inputs_;
    std::vector<KopeTensor> outputs_;
    std::vector<KopeAttr> attrs_;
};

bool Case::prepare(std::string& problem)
{
    control::Options options = options_;
    options.mode = verify_ ? control::Mode::Verify : control::Mode::Time;
    options.block_order_seed = plan_.block_order;
    control::begin_case(options);
    for (const harness::TensorPlan& tensor : plan_.inputs) {
        if (!add_input(tensor, problem)) {
            return false;
        }
    }
    for (const harness::TensorPlan& tensor : plan_.outputs) {
        if (!add_output(tensor, problem)) {
            return false;
        }
    }
    for (const harness::AttrPlan& attr : plan_.attrs) {
        attrs_.push_back({attr.name.c_str(), attr.kind, attr.i, attr.f, attr.s.c_str(), attr.ints.data(),
                          attr.floats.data(), static_cast<int32_t>(attr.ints.size())});
    }
    return true;
}

KopeTensor tensor_of(const harness::TensorPlan& plan, void* device)
{
    return {device, plan.shape.data(), static_cast<int32_t>(plan.shape.size()), plan.dtype, plan.numel()};
}

bool Case::add_input(const harness::TensorPlan& plan, std::string& problem)
{
    if (plan.omitted) {
        inputs_.push_back({nullptr, nullptr, 0, plan.dtype, 0});
        return true;
    }
    void* host = nullptr;
    if (verify_) {
        mappings_.push_back(std::make_unique<Mapping>());
        if (!mappings_.back()->open_input(plan.path, plan.bytes(), problem)) {
            return false;
        }
        host = mappings_.back()->data();
    }
    inputs_.push_back(tensor_of(plan, control::device_buffer(plan.name.c_str(), host, plan.bytes(), control::Access::Input)));
    return true;
}

bool Case::add_output(const harness::TensorPlan& plan, std::string& problem)
{
    void* host = nullptr;
    if (verify_) {
        mappings_.push_back(std::make_unique<Mapping>());
        if (!mappings_.back()->create_output(plan.path, plan.bytes(), problem)) {
            return false;
        }
        host = mappings_.back()->data();
        poison(host, plan.bytes(), plan.dtype);
    }
    outputs_.push_back(tensor_of(plan, control::device_buffer(plan.name.c_str(), host, plan.bytes(), control::Access::Output)));
    return true;
}

KopeCall Case::make_call()
{
    double cores = 0.0;
    control::get_parameter("vector_core_count", &cores);
    KopeCall call{};
    call.inputs = inputs_.data();
    call.input_count = static_cast<int32_t>(inputs_.size());
    call.outputs = outputs_.data();
    call.output_count = static_cast<int32_t>(outputs_.size());
    call.attrs = attrs_.data();
    call.attr_count = static_cast<int32_t>(attrs_.size());
    call.vector_core_count = static_cast<uint32_t>(cores);
    call.ub_bytes = ub_bytes_;
    static int stream;
    call.stream = &stream;
    return call;
}

bool Case::add_workspace(KopeCall& call, control::CaseResult& refused)
{
    call.workspace_bytes = kope_workspace_bytes == nullptr ? 0 : kope_workspace_bytes(&call);
    if (call.workspace_bytes == 0) {
        return true;
    }
    mappings_.push_back(std::make_unique<Mapping>());
    void* host = nullptr;
    if (call.workspace_bytes > (size_t{1} << 36) || (verify_ && !mappings_.back()->allocate(call.workspace_bytes))) {
        refused = control::end_case();
        refused.findings.push_back(harness::finding(
            "memory-limit", "kope_workspace_bytes asks for " + std::to_string(call.workspace_bytes) + " bytes, more than there is",
            "size the workspace from the shapes"));
        return false;
    }
    if (verify_) {
        host = mappings_.back()->data();
        std::memset(host, 0xFF, call.workspace_bytes);
    }
    call.workspace = control::device_buffer("workspace", host, call.workspace_bytes, control::Access::Workspace);
    return true;
}

control::CaseResult Case::run(int& return_code)
{
    KopeCall call = make_call();
    control::CaseResult result;
    if (!add_workspace(call, result)) {
        return result;
    }
    return_code = kope_entry(&call);
    std::fflush(stdout);
    if (verify_ && return_code == 0) {
        control::CaseResult outputs;
        check_outputs(outputs);
        result = control::end_case();
        if (!result.stopped) { // a call that ended early leaves outputs open by itself
            result.findings.insert(result.findings.end(), outputs.findings.begin(), outputs.findings.end());
        }
    } else {
        result = control::end_case();
    }
    if (return_code != 0) {
        result.findings.push_back(harness::finding(
            "entry-refused", "kope_entry returned " + std::to_string(return_code),
            "handle this case's dtypes, shapes and attributes; 0 means launched"));
    } else if (result.launches.empty() && !result.stopped) {
        result.findings.push_back(
            harness::finding("no-launch", "kope_entry returned 0 without launching a kernel", "launch a kernel for every case"));
    }
    return result;
}

void Case::check_outputs(control::CaseResult& result) const
{
    for (size_t k = 0; k < outputs_.size(); ++k) {
        size_t first = 0;
        const size_t missing = outputs_[k].data == nullptr ? 0 : control::unwritten_bytes(outputs_[k].data, &first);
        if (missing == 0) {
            continue;
        }
        const harness::TensorPlan& plan = plan_.outputs[k];
        const size_t size = kope_dtype_bytes(plan.dtype);
        result.findings.push_back(harness::finding(
            "unwritten-output",
            "output " + plan.name + ": " + std::to_string((missing + size - 1) / size) + " of " + std::to_string(plan.numel()) +
                " elements never written, the first at " + element(plan, first),
            "look at the tail of each core's share and at counts rounded down to 32 bytes; DataCopyPad copies any length"));
    }
}

// Called by the runtime, or by a signal, with the process in an unknown state: report, then end.
void on_fault(const control::CaseResult& result)
{
    alarm(5); // a damaged heap may never return from here
    if (answers != nullptr && current_case >= 0) {
        answers->end(current_case, -1, result);
    }
}

struct ForbiddenCall {
    long number;
    const char* name;
    const char* kind;
};

const ForbiddenCall forbidden_calls[] = {
#ifdef SYS_fork
    {SYS_fork, "fork", "fork-attempt"},
#endif
#ifdef SYS_vfork
    {SYS_vfork, "vfork", "fork-attempt"},
#endif
    {SYS_clone, "clone", "fork-attempt"},
#ifdef SYS_clone3
    {SYS_clone3, "clone3", "fork-attempt"},
#endif
    {SYS_execve, "execve", "fork-attempt"},
    {SYS_socket, "socket", "network-access"},
    {SYS_connect, "connect", "network-access"},
    {SYS_sendto, "sendto", "network-access"},
};

// The sandbox turns calls a candidate must not make into SIGSYS.
void on_forbidden_call(int, siginfo_t* info, void*)
{
    std::string name = "system call " + std::to_string(info->si_syscall);
    const char* kind = "forbidden-call";
    for (const ForbiddenCall& known : forbidden_calls) {
        if (known.number == info->si_syscall) {
            name = std::string(known.name) + "()";
            kind = known.kind;
        }
    }
    control::CaseResult result;
    result.findings.push_back(harness::finding(kind, "the candidate called " + name + ", which it must not",
                                               "do all work in the kernel: no processes, no network, no other files"));
    on_fault(result);
    _exit(exit_signal);
}

void install_handlers()
{
    control::install_fault_handler(on_fault);
    struct sigaction action {};
    action.sa_sigaction = on_forbidden_call;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, nullptr);
}

int fail(const std::string& problem)
{
    std::fprintf(stderr, "kope-harness: %s\n", problem.c_str());
    return exit_usage;
}

int run_all(const harness::LaunchPlan& plan)
{
    for (const harness::CasePlan& one : plan.cases) {
        current_case = one.number;
        Case work(one, plan);
        std::string problem;
        if (!work.prepare(problem)) {
            return fail(problem);
        }
        answers->begin(one.number);
        int return_code = 0;
        const control::CaseResult result = work.run(return_code);
        answers->end(one.number, return_code, result);
        current_case = -1;
    }
    return 0;
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 3) {
        return fail("usage: candidate LAUNCH_FILE ANSWER_FD");
    }
    harness::LaunchPlan plan;
    std::string problem;
    if (!harness::read_launch(argv[1], plan, problem)) {
        return fail(problem);
    }
    for (const auto& [name, value] : plan.parameters) {
        if (!control::set_parameter(name.c_str(), value)) {
            return fail("the runtime has no parameter " + name);
        }
    }
    if (!plan.chip.empty()) {
        control::set_chip_name(plan.chip.c_str());
    }
    harness::Answers writer(std::atoi(argv[2]), plan.nonce);
    answers = &writer;
    install_handlers();
    return run_all(plan);
}
