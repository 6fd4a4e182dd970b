"""Profiles that need no file; each is also written out, with what can be changed, in the checkout's ``cluster/``."""

from grafico.cluster.pool import Pool
from grafico.cluster.profile import Profile
from grafico.cluster.slurm.settings import Scale, SlurmSettings

__all__ = ["ALLOCATION", "BUILTIN", "GPU1", "H100X4", "LAPTOP", "SIM_H100X4", "SLURM_CPU", "SLURM_H100"]

LAPTOP = Profile(
    name="laptop", description="the CPUs of this machine; needs no configuration", pools=(Pool(name="cpu"),)
)
"""The profile that a job gets when it names none."""

GPU1 = Profile(
    name="gpu1",
    description="one GPU of this machine, shared by three calculations, and its CPUs",
    pools=(Pool(name="gpu", gpus=1), Pool(name="cpu")),
)
"""One GPU; needs no configuration either."""

H100X4 = Profile(
    name="h100x4",
    description="one node with four H100 GPUs, three calculations on each, and its CPUs",
    pools=(Pool(name="gpu", gpus=4, slots=3), Pool(name="cpu")),
)
"""The node of El Agente Gráfico, Table 1: twelve slots."""

SIM_H100X4 = Profile(
    name="sim-h100x4",
    description="four simulated GPUs with three slots each, to try placement without a GPU",
    pools=(
        Pool(name="gpu", gpus=4, simulated=True, slots=3, gpu_memory_mib=81_559, cpus=12, memory_mib=98_304),
        Pool(name="cpu", cpus="auto", memory_mib="auto"),
    ),
    dashboard="off",
)
"""The same as it would be shared out, on a machine without any GPU."""

SLURM_CPU = Profile(
    kind="slurm",
    name="slurm-cpu",
    description="CPU hosts that Slurm starts and ends as the work needs them",
    pools=(Pool(name="cpu", cpus=16, memory_mib=65_536, hosts=Scale(min=0, max=4)),),
    slurm=SlurmSettings(walltime="08:00:00"),
)
"""Jobs in the site's default partition."""

SLURM_H100 = Profile(
    kind="slurm",
    name="slurm-h100",
    description="hosts with four H100 GPUs, and CPU hosts, that Slurm starts and ends as the work needs them",
    pools=(
        Pool(
            name="gpu",
            gpus=4,
            slots=3,
            gpu_memory_mib=81_559,
            cpus=48,
            memory_mib=262_144,
            hosts=Scale(min=0, max=2),
            slurm=SlurmSettings(gpu_style="gres", gpu_type="h100"),
        ),
        Pool(name="cpu", cpus=16, memory_mib=65_536, hosts=Scale(min=0, max=4)),
    ),
    slurm=SlurmSettings(walltime="1-00:00:00"),
)
"""GPU calculations go to the one pool, CPU calculations to the other, on one scheduler."""

ALLOCATION = Profile(
    kind="slurm",
    workers="allocation",
    name="allocation",
    description="every node of the Slurm allocation that we are in, with what it has",
    pools=(Pool(name="gpu", gpus="auto"), Pool(name="cpu")),
)
"""Inside `sbatch` or `salloc`; hardware as found."""

BUILTIN = {profile.name: profile for profile in (LAPTOP, GPU1, H100X4, SIM_H100X4, SLURM_CPU, SLURM_H100, ALLOCATION)}
