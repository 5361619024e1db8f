// Reads what `all_pairs` wrote: for every row S_b, the R_q, and three numbers; one record per split of the columns.
#bind sums

fn sum_of(row: u32, which: u32, k: u32) -> vec4<f32> {
    var sum = vec4<f32>(0.0);
    for (var split = 0u; split < job.splits; split++) {
        sum += sums[(split * job.rows + row) * job.sums_stride + which * job.stride + k];
    }
    return sum;
}

// Σ c_rest, Σ c_r, Σ c_z of a row.
fn numbers_of(row: u32) -> vec4<f32> { return sum_of(row, SUMS, 0u); }
