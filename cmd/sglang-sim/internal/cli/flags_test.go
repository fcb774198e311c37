// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"reflect"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

// another is a value that a flag has not by default.
func another(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return map[string]string{"false": "true", "true": "false"}[f.DefValue]
	case "duration":
		return "17ms"
	case "json":
		return `{"a": "b"}`
	case "string", "stringSlice", "stringArray":
		return "another"
	}
	return "17"
}

// Every setting can be set: by exactly one flag, but for the short form of the seed,
// or by the environment.
func TestEverySettingHasAFlag(t *testing.T) {
	byEnvironment := map[string]string{
		envLevel: "TraceLevel", envDeviceTimer: "DeviceTimer", envAsync: "TraceAsync",
		envHitWindow: "CacheHitWindow", envEviction: "BucketEvictionDuration",
	}
	setBy := map[string][]string{}
	names := map[string]bool{}
	for i, g := range groups(new(args.Args)) {
		g.flags.VisitAll(func(f *pflag.Flag) {
			require.False(t, names[f.Name], "%s is defined twice", f.Name)
			names[f.Name] = true
			a := args.Default()
			require.NoError(t, groups(&a)[i].flags.Set(f.Name, another(f)))
			changed := differences(args.Default(), a)
			require.Len(t, changed, 1, f.Name)
			setBy[changed[0]] = append(setBy[changed[0]], f.Name)
		})
	}
	for name, field := range byEnvironment {
		t.Setenv(name, "1")
		a := args.Default()
		require.NoError(t, environment(&a))
		require.Contains(t, differences(args.Default(), a), field)
		setBy[field] = append(setBy[field], name)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[args.Args]()) {
		want := 1
		if f.Name == "Seed" {
			want = 2
		}
		assert.Len(t, setBy[f.Name], want, f.Name)
	}
}

// differences are the fields in which two settings differ.
func differences(a, b args.Args) (fields []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[args.Args]()) {
		x, y := reflect.ValueOf(a).FieldByIndex(f.Index), reflect.ValueOf(b).FieldByIndex(f.Index)
		if !reflect.DeepEqual(x.Interface(), y.Interface()) {
			fields = append(fields, f.Name)
		}
	}
	return fields
}
