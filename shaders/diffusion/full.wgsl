// A full a: stage `spread` has put a (x − centre) of every sample into `work`.
#bind work

fn alpha(e: u32, k: u32) -> vec4<f32> { return vec4<f32>(0.0); }

fn spread(row: u32, e: u32, k: u32, v: vec4<f32>) -> vec4<f32> {
    return work[row * job.work_stride + job.at_spread + k];
}

fn spread_pair(row: u32, other: u32, e: u32, k: u32, r: vec4<f32>) -> vec4<f32> {
    return spread(row, e, k, r) - spread(other, e, k, r);
}
