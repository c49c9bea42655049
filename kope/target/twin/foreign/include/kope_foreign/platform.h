// Platform queries of host code, answered for the chip the twin models.
#ifndef KOPE_FOREIGN_PLATFORM_H
#define KOPE_FOREIGN_PLATFORM_H

#include <cstdint>
#include <string>

#include "kope_twin/control.h"

namespace fe {
enum class LocalMemType { L0_A = 0, L0_B, L0_C, L1, L2, UB, HBM, RESERVED };
struct PlatFormInfos {
    uint32_t GetCoreNum() const;
    void GetLocalMemSize(const LocalMemType& type, uint64_t& bytes) const;
};
} // namespace fe

namespace kope_foreign {

inline double chip_value(const char* name, double fallback)
{
    double value = fallback;
    return kope_twin::control::get_parameter(name, &value) ? value : fallback;
}

} // namespace kope_foreign

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B, L0_C, L1, L2, UB, HBM, FB, BT, RESERVED };
enum class SocVersion { ASCEND910 = 0, ASCEND910B, ASCEND310P, ASCEND310B, ASCEND910_93, ASCEND910_95, ASCEND950, RESERVED_VERSION };

class PlatformAscendC {
public:
    PlatformAscendC() = default;
    explicit PlatformAscendC(const fe::PlatFormInfos*) {}

    uint32_t GetCoreNum() const { return GetCoreNumAiv(); } // a vector operator's cores
    uint32_t GetCoreNumAiv() const { return static_cast<uint32_t>(kope_foreign::chip_value("vector_core_count", 48)); }
    uint32_t GetCoreNumVector() const { return 0; }
    uint32_t GetCoreNumAic() const { return GetCoreNumAiv() / 2; }
    uint32_t CalcTschBlockDim(uint32_t slices, uint32_t, uint32_t) const { return slices; }
    uint32_t CalcTschNumBlocks(uint32_t slices, uint32_t, uint32_t) const { return slices; }
    uint32_t GetLibApiWorkSpaceSize() const { return 16U << 20; }
    uint32_t GetResCubeGroupWorkSpaceSize() const { return 0; }
    uint32_t GetResGroupBarrierWorkSpaceSize() const { return 0; }
    SocVersion GetSocVersion() const
    {
        return std::string(kope_twin::control::chip_name()).find("910_93") != std::string::npos ? SocVersion::ASCEND910_93 : SocVersion::ASCEND910B;
    }
    // What a kernel may plan with: the toolkit keeps 256 bytes of the unified buffer.
    void GetCoreMemSize(CoreMemType type, uint64_t& bytes) const
    {
        switch (type) {
            case CoreMemType::UB:
                bytes = static_cast<uint64_t>(kope_foreign::chip_value("ub_bytes", 196608)) - 256;
                break;
            case CoreMemType::L1:
                bytes = 512U << 10;
                break;
            case CoreMemType::L0_A:
            case CoreMemType::L0_B:
                bytes = 64U << 10;
                break;
            case CoreMemType::L0_C:
                bytes = 128U << 10;
                break;
            case CoreMemType::L2:
                bytes = static_cast<uint64_t>(kope_foreign::chip_value("l2_bytes", 201326592));
                break;
            default:
                bytes = 0;
        }
    }
    void GetCoreMemBw(CoreMemType type, uint64_t& bytes_per_cycle) const { bytes_per_cycle = type == CoreMemType::L2 ? 110 : 32; }
};

class PlatformAscendCManager {
public:
    static PlatformAscendC* GetInstance()
    {
        static PlatformAscendC only;
        return &only;
    }
    static PlatformAscendC* GetInstance(const char*) { return GetInstance(); }
};

} // namespace platform_ascendc

inline void fe::PlatFormInfos::GetLocalMemSize(const LocalMemType& type, uint64_t& bytes) const
{
    platform_ascendc::PlatformAscendC().GetCoreMemSize(static_cast<platform_ascendc::CoreMemType>(type), bytes);
}
inline uint32_t fe::PlatFormInfos::GetCoreNum() const { return platform_ascendc::PlatformAscendC().GetCoreNumAiv(); }

#endif
