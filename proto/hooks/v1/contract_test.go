package hooksv1_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// What other implementations were built against. A line may be added, none changed.
const contract = `package hooks.v1
service hooks.v1.HookService
rpc ExecuteHook hooks.v1.ExecuteHookRequest hooks.v1.ExecuteHookResponse false false
message hooks.v1.Hook
1 name string optional
2 command string repeated
3 user string optional
4 group string optional
5 cwd string optional
6 timeout_seconds int32 optional
7 env map<string,string>
message hooks.v1.ExecuteHookRequest
1 hook message optional
message hooks.v1.ExecuteHookResponse
1 error string optional
2 exit_code int32 optional
3 signal int32 optional
4 timed_out bool optional
5 output string optional
6 duration_milliseconds int64 optional
7 output_truncated bool optional
8 started bool optional
9 killed bool optional
`

func TestContractIsKept(t *testing.T) {
	var b strings.Builder
	f := hooksv1.File_hooks_v1_hooks_proto
	fmt.Fprintf(&b, "package %s\n", f.Package())
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		fmt.Fprintf(&b, "service %s\n", s.FullName())
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			fmt.Fprintf(&b, "rpc %s %s %s %v %v\n", m.Name(), m.Input().FullName(), m.Output().FullName(), m.IsStreamingClient(), m.IsStreamingServer())
		}
	}
	for i := range f.Messages().Len() {
		m := f.Messages().Get(i)
		fmt.Fprintf(&b, "message %s\n", m.FullName())
		for j := range m.Fields().Len() {
			b.WriteString(field(m.Fields().Get(j)))
		}
	}
	if got := b.String(); got != contract {
		t.Errorf("got\n%s\nwant\n%s", got, contract)
	}
}

func field(d protoreflect.FieldDescriptor) string {
	if d.IsMap() {
		return fmt.Sprintf("%d %s map<%s,%s>\n", d.Number(), d.Name(), d.MapKey().Kind(), d.MapValue().Kind())
	}
	return fmt.Sprintf("%d %s %s %s\n", d.Number(), d.Name(), d.Kind(), d.Cardinality())
}
