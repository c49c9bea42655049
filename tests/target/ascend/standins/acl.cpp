// The runtime's calls on the twin: device memory, launches that a synchronisation ends, errors as codes with the
// runtime's phrases. $KOPE_STANDIN_TRACE is where a profiler wants the launches written.
//
// $ASCEND_HOME_PATH/standin/acl.txt tells it to fail, in lines of "call code text". init, device, malloc, sync: that call
// fails. sync-once: in the first process only. sync-and-log: the text goes to the log file. hang, hang-N: never returns, on
// any card or on card N. init-needs-network: fails where no socket can be had.
#include "acl/acl.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "answer.h"
#include "kope_twin/control.h"

namespace control = kope_twin::control;

namespace {

struct Memory {
    std::vector<unsigned char> host;
    void* device = nullptr;
    bool freed = false;
};

std::vector<std::unique_ptr<Memory>> memories;
std::string last_text;
int64_t synchronisations = 0;

std::string home_file(const char* name)
{
    const char* home = std::getenv("ASCEND_HOME_PATH");
    return std::string(home == nullptr ? "/nowhere" : home) + "/standin/" + name;
}

// What a call is told to do: 0 to work, else its error code; the text becomes the runtime's last message.
int told(const std::string& call)
{
    std::ifstream file(home_file("acl.txt"));
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string name;
        int code = 0;
        words >> name >> code;
        if (name == call) {
            std::getline(words >> std::ws, last_text);
            return code;
        }
    }
    return 0;
}

bool first_process()
{
    char folder[4096];
    return getcwd(folder, sizeof folder) != nullptr && std::strstr(folder, "process-1") != nullptr;
}

int64_t now_us()
{
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

void open_window()
{
    control::begin_case(control::Options{});
    for (const auto& memory : memories) {
        memory->device = control::device_buffer("device memory", memory->host.data(), memory->host.size(), control::Access::Workspace);
    }
}

Memory* memory_at(const void* address, size_t& offset)
{
    for (const auto& memory : memories) {
        const auto start = reinterpret_cast<uintptr_t>(memory->device);
        const auto place = reinterpret_cast<uintptr_t>(address);
        if (!memory->freed && place >= start && place < start + memory->host.size()) {
            offset = place - start;
            return memory.get();
        }
    }
    return nullptr;
}

void trace(const control::CaseResult& result)
{
    const char* folder = std::getenv("KOPE_STANDIN_TRACE");
    if (folder == nullptr || result.launches.empty()) {
        return;
    }
    const std::string path = std::string(folder) + "/launches.jsonl";
    const int file = open(path.c_str(), O_CREAT | O_APPEND | O_WRONLY, 0644);
    harness::Answers(file, std::to_string(now_us())).end(synchronisations, 0, result);
    close(file);
}

const std::map<std::string, const char*> phrases = {
    {"ub-oob", "VEC instruction error: the ub address out of bounds"},
    {"ub-overflow", "VEC instruction error: the ub address out of bounds"},
    {"gm-oob", "The DDR address of the MTE instruction is out of range"},
    {"align", "the UB address of the instruction is not aligned"},
};

// The errors a device would notice; what it does not (a missing synchronisation, a read of nothing) stays unseen.
int device_error(const control::CaseResult& result)
{
    for (const control::Finding& found : result.findings) {
        const auto phrase = phrases.find(found.kind);
        if (found.severity == control::Severity::Error && phrase != phrases.end()) {
            last_text = std::string("EZ9999: Inner Error!\nThe extend info: errcode:(0x10, 0, 0) errorStr: ") + phrase->second +
                ". blk:" + std::to_string(found.block) + ", sublk:0, subErrType:4.\n" +
                "Kernel task happen error, retCode=0x31, [vector core exception].";
            return 507035;
        }
    }
    if (result.stopped) {
        last_text = "Kernel task happen error, retCode=0x31, [vector core exception].";
        return 507035;
    }
    return 0;
}

} // namespace

extern "C" {

aclError aclInit(const char*)
{
    const int code = told("init-needs-network");
    if (code != 0 && socket(AF_INET, SOCK_STREAM, 0) < 0) {
        return code;
    }
    return told("init");
}

aclError aclFinalize() { return ACL_SUCCESS; }

aclError aclrtSetDevice(int32_t)
{
    open_window();
    return told("device");
}

aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }

aclError aclrtCreateStream(aclrtStream* stream)
{
    static int place;
    *stream = &place;
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream) { return ACL_SUCCESS; }

aclError aclrtSynchronizeStream(aclrtStream)
{
    ++synchronisations;
    const control::CaseResult result = control::end_case();
    trace(result);
    open_window();
    const std::string card = std::getenv("ASCEND_RT_VISIBLE_DEVICES") == nullptr ? "" : std::getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (told("hang") || told("hang-" + card)) {
        std::this_thread::sleep_for(std::chrono::hours(1));
    }
    if (const int code = told("sync-once"); code != 0 && first_process()) {
        return code;
    }
    if (const int code = told("sync-and-log")) {
        const std::string place = std::getenv("ASCEND_PROCESS_LOG_PATH");
        std::ofstream(place + "/plog-1_20261201000000.log") << "[ERROR] RUNTIME(1,candidate): " << last_text << "\n";
        last_text = "";
        return code;
    }
    const int code = told("sync");
    return code != 0 ? code : device_error(result);
}

aclError aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy)
{
    if (const int code = told("malloc")) {
        return code;
    }
    memories.push_back(std::make_unique<Memory>());
    memories.back()->host.assign(bytes, 0x5C);
    memories.back()->device = control::device_buffer("device memory", memories.back()->host.data(), bytes, control::Access::Workspace);
    *memory = memories.back()->device;
    return *memory == nullptr ? 207001 : ACL_SUCCESS;
}

aclError aclrtFree(void* address)
{
    size_t offset = 0;
    if (Memory* memory = memory_at(address, offset)) {
        memory->freed = true;
    }
    bool all = true;
    for (const auto& memory : memories) {
        all = all && memory->freed;
    }
    if (all) {
        memories.clear();
        open_window();
    }
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind)
{
    size_t offset = 0;
    const bool in = kind == ACL_MEMCPY_HOST_TO_DEVICE;
    Memory* memory = memory_at(in ? to : from, offset);
    if (memory == nullptr || bytes > room || offset + bytes > memory->host.size()) {
        return 107000;
    }
    unsigned char* place = memory->host.data() + offset;
    std::memcpy(in ? static_cast<void*>(place) : to, in ? from : static_cast<const void*>(place), bytes);
    return ACL_SUCCESS;
}

const char* aclGetRecentErrMsg() { return last_text.empty() ? nullptr : last_text.c_str(); }

} // extern "C"
